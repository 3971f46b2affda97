// Any bytes as a GGUF file. What is accepted must keep the reader's promise: keys and names occur once,
// tensors lie in the file and do not touch, and all that is read out of the metadata ends in a value or a
// sentence. Read as a vision tower it ends in one of them, too.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/check.h"
#include "formats/gguf.h"
#include "formats/gguf_tokenizer.h"
#include "image/preprocessor.h"
#include "model/gguf_tower.h"
#include "text/tokenizer.h"

namespace {

using namespace kapitsa;

void check_tensors(const Gguf& gguf, Bytes file) {
    std::set<std::string> names;
    std::vector<Bytes> places;
    for (const TensorEntry& tensor : gguf.tensors) {
        CHECK(names.insert(tensor.name).second);
        CHECK(tensor.bytes.data() >= file.data() &&
              tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size());
        const ElementForm form = element_form(tensor.type);
        std::uint64_t elements = 1;
        for (const std::uint64_t extent : tensor.shape) elements *= extent;
        CHECK(elements / form.values * form.bytes == tensor.bytes.size());
        places.push_back(tensor.bytes);
    }
    std::ranges::sort(places, {}, [](Bytes place) { return place.data(); });
    for (std::size_t i = 1; i < places.size(); ++i)
        CHECK(places[i - 1].data() + places[i - 1].size() <= places[i].data());
}

/// The file as the vision tower of a model: a sentence, or all of it in the words of a model folder.
void check_tower(Gguf gguf) {
    Checkpoint model, tower;
    auto of_model = std::make_shared<Gguf>();
    of_model->metadata.push_back({.key = "general.architecture",
                                  .type = GgufType::text,
                                  .is_list = false,
                                  .count = 1,
                                  .bytes = as_bytes("qwen35")});
    model.gguf = of_model;
    model.config = std::make_shared<const Json>(Json{{"hidden_size", 4}, {"image_token_id", 1}});
    for (TensorEntry& tensor : gguf.tensors) tower.tensors.emplace(tensor.name, tensor);
    tower.config = std::make_shared<const Json>(settings_of(gguf));
    tower.gguf = std::make_shared<const Gguf>(std::move(gguf));
    const Status translated = translate_tower(model, tower);
    if (!translated) {
        CHECK(!translated.error().message.empty());
        return;
    }
    for (const auto& [name, tensor] : tower.tensors) CHECK(name.starts_with("model.visual."));
    const auto prepared = Preprocessor::read(tower.preprocessor_config.get());
    CHECK(prepared && prepared->extent_of(32, 32));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file = std::as_bytes(std::span(data, size));
    const auto gguf = read_gguf(file);
    if (!gguf) {
        CHECK(!gguf.error().message.empty());
        return 0;
    }
    check_tensors(*gguf, file);
    CHECK(settings_of(*gguf).size() <= gguf->metadata.size());
    for (const char* name : {"bos", "eos", "eot"})
        if (const auto token = gguf_token(*gguf, name); token && *token) gguf_token_text(*gguf, **token);
    if (auto description = read_gguf_tokenizer(*gguf))
        if (const auto tokenizer = Tokenizer::make(std::move(*description)))
            tokenizer->encode(MarkedText::all_control("A text, 12 <|end|>\n"));
    check_tower(std::move(*gguf));
    return 0;
}
