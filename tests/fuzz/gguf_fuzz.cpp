// Any bytes as a GGUF file. What is accepted must keep the reader's promise: keys and names occur once,
// tensors lie in the file and do not touch, and all that is read out of the metadata ends in a value or a
// sentence.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/check.h"
#include "formats/gguf.h"
#include "formats/gguf_tokenizer.h"
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
    auto description = read_gguf_tokenizer(*gguf);
    if (!description) return 0;
    const auto tokenizer = Tokenizer::make(std::move(*description));
    if (tokenizer) tokenizer->encode(MarkedText::all_control("A text, 12 <|end|>\n"));
    return 0;
}
