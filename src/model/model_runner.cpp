#include "model/model_runner.h"

#include <algorithm>

#include "base/log.h"
#include "kernels/all.h"

namespace kapitsa {
namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

Result<std::unique_ptr<Runner>> load_runner(const Checkpoint& checkpoint, const RunnerOptions& options) {
    return TRY(ModelRunner::load(checkpoint, options));
}

Result<ModelCost> weigh_model(const Checkpoint& checkpoint) {
    const Architecture* architecture = TRY(find_architecture(*checkpoint.config));
    const auto backend = TRY(open_backend("cpu", {.threads = 1}));
    Weights weights = TRY(Weights::of(checkpoint, *backend));
    const auto model = TRY(architecture->load(*checkpoint.config, weights));
    TRY(model->load_tower(*checkpoint.config, weights));
    const ModelShape& shape = model->shape();
    ModelCost cost{.weight_bytes = checkpoint.weight_bytes(), .context = shape.context};
    for (const AttentionShape& layer : shape.attention)
        cost.token_bytes += 2 * layer.page_floats() * sizeof(float) / page_tokens;
    for (const RecurrentShape& layer : shape.recurrent)
        cost.sequence_bytes += (layer.state_floats + layer.tail_floats()) * sizeof(float);
    return cost;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::load(const Checkpoint& checkpoint,
                                                       const RunnerOptions& options,
                                                       std::vector<std::uint32_t> taps) {
    CHECK(options.sequences > 0 && options.rows_per_step > 0 && options.draft_rows > 0 &&
          options.draft_rows <= 64);
    auto runner = std::make_unique<ModelRunner>();
    const Architecture* architecture = TRY(find_architecture(*checkpoint.config));
    runner->backend_ = TRY(open_backend(options.backend, {.threads = options.threads}));
    runner->disk_ = std::make_unique<DiskMemory>(checkpoint.files);
    Weights weights = TRY(Weights::of(checkpoint, *runner->backend_, runner->disk_.get()));
    runner->model_ = TRY(architecture->load(*checkpoint.config, weights));
    const ModelShape& shape = runner->model_->shape();
    if (options.drafter) runner->drafter_ = TRY(runner->model_->load_drafter(weights));
    if (runner->drafter_) taps.push_back(shape.layers);  // what it reads
    constexpr std::uint32_t default_context = 32768;
    if (options.context > shape.context)
        return fail(Fault::invalid_input, "a context of " + std::to_string(options.context) +
                                              " tokens is longer than the model was made for: --ctx takes at "
                                              "most " +
                                              std::to_string(shape.context) + " here");
    const Device device = runner->backend_->device();
    runner->info_ = {.architecture = std::string(architecture->name),
                     .backend = device.name,
                     .device = device.description,
                     .on_host = device.shares_host_memory,
                     .vocabulary = shape.vocabulary,
                     .context = options.context ? options.context : std::min(shape.context, default_context),
                     .sequences = options.sequences,
                     .pages = 0,
                     .rows_per_step = std::max(options.rows_per_step, options.sequences * options.draft_rows),
                     .draft_rows = options.draft_rows,
                     .weight_bytes = weights.bytes(),
                     .decode_bytes = shape.decode_bytes};
    runner->info_.width = shape.width;
    if (!checkpoint.blind_because.empty()) runner->info_.blind_because = checkpoint.blind_because;
    TRY(runner->load_tower(*checkpoint.config, weights, options.picture_patches));
    runner->info_.weight_bytes = weights.bytes();
    runner->taps_.layers = std::move(taps);
    TRY(runner->allocate(options));
    TRY(runner->start_disk(options));
    return runner;
}

Status ModelRunner::allocate(const RunnerOptions& options) {
    TRY(allocate_cache(options));
    kept_rows_ = info_.sequences * info_.draft_rows;
    wanted_rows_ = options.wanted_rows ? options.wanted_rows : kept_rows_;
    const auto floats = [&](std::size_t count) -> Result<Address> {
        if (count == 0) return Address{};  // some layers remember nothing of one kind
        return backend_->allocate(count * sizeof(float));
    };
    for (const RecurrentShape& shape : model_->shape().recurrent) {
        RecurrentMemory memory{.shape = shape, .states = {}, .tails = {}, .kept = {}};
        memory.states = TRY(floats(info_.sequences * shape.state_floats));
        memory.tails = TRY(floats(info_.sequences * shape.tail_floats()));
        for (std::size_t i = 0; i < shape.kept.size(); ++i)
            if (shape.kept[i] > 0) memory.kept[i] = TRY(floats(std::size_t(kept_rows_) * shape.kept[i]));
        memory_.recurrent.push_back(memory);
    }
    for (std::size_t i = 0; i < taps_.layers.size(); ++i)
        taps_.places.push_back(TRY(floats(std::size_t(info_.rows_per_step) * model_->shape().width)));
    if (drafter_) TRY(allocate_drafter());
    const std::uint32_t pages = info_.sequences * pages_for(info_.context + info_.draft_rows);
    writer_ = TRY(StepWriter::make(*backend_, {info_.rows_per_step, info_.sequences, pages, wanted_rows_,
                                               kept_rows_, tower_ ? info_.width : 0}));
    logits_.reserve(std::size_t(wanted_rows_) * info_.vocabulary);
    return rehearse();
}

/// A tower that we do not understand leaves a model that reads.
Status ModelRunner::load_tower(const Json& config, Weights& weights, std::uint32_t patches) {
    if (patches == 0) return Done{};
    auto tower = model_->load_tower(config, weights);
    if (!tower) {
        info_.blind_because = "the model's vision tower cannot be used: " + tower.error().message;
        log_info(info_.blind_because);
        return Done{};
    }
    if (!*tower) return Done{};
    tower_ = std::move(*tower);
    const TowerShape& shape = tower_->shape();
    const std::uint32_t of_block = shape.block * shape.block;
    info_.picture_patches = std::max(1u, patches / of_block) * of_block;
    info_.picture_side = shape.side;
    info_.picture_block = shape.block;
    info_.picture_frames = shape.frames;
    picture_writer_ = TRY(PictureWriter::make(*backend_, shape, info_.picture_patches));
    return Done{};
}

Status ModelRunner::allocate_drafter() {
    drafted_ =
        TRY(backend_->allocate(std::size_t(info_.rows_per_step) * model_->shape().width * sizeof(float)));
    picked_ = TRY(backend_->allocate(std::size_t(info_.rows_per_step) * sizeof(std::uint32_t)));
    return Done{};
}

std::vector<AttentionShape> ModelRunner::attention_shapes() const {
    auto shapes = model_->shape().attention;
    if (drafter_) shapes.insert(shapes.end(), drafter_->attention().begin(), drafter_->attention().end());
    return shapes;
}

/// Room for every sequence's whole context if the memory allows it; for one at the least.
Status ModelRunner::allocate_cache(const RunnerOptions& options) {
    std::size_t page_bytes = 0;
    const auto shapes = attention_shapes();
    for (const AttentionShape& shape : shapes) page_bytes += 2 * shape.page_floats() * sizeof(float);
    const std::uint64_t budget =
        options.cache_bytes ? options.cache_bytes : backend_->device().memory_bytes / 3;
    const std::uint64_t for_one = pages_for(info_.context + info_.draft_rows);
    const std::uint64_t wish = for_one * info_.sequences,
                        affordable = page_bytes ? budget / page_bytes : wish;
    if (affordable < for_one)
        return fail(Fault::out_of_memory, "the keys and values of " + std::to_string(info_.context) +
                                              " tokens take " + mebibytes(for_one * page_bytes) +
                                              ", and there are " + mebibytes(budget) +
                                              " for them; ask for a shorter context (--ctx)");
    info_.pages = std::uint32_t(std::min(wish, affordable));
    for (const AttentionShape& shape : shapes) {
        const std::size_t bytes = std::size_t(info_.pages) * shape.page_floats() * sizeof(float);
        memory_.attention.push_back({.shape = shape,
                                     .keys = TRY(backend_->allocate(bytes)),
                                     .values = TRY(backend_->allocate(bytes))});
    }
    return Done{};
}

/// Walks the largest step once without launching it: the scratch that it needs, and the kernels.
Status ModelRunner::rehearse() {
    Recorder r = Recorder::rehearsal(*backend_);
    Batch largest;
    largest.rows = info_.rows_per_step;
    largest.wanted = wanted_rows_;
    {
        const auto scope = r.scope();
        model_->forward(largest, memory_, taps_, r);
    }
    if (drafter_) {
        const auto scope = r.scope();
        drafter_->forward(largest, {{Address{}, info_.rows_per_step, model_->shape().width}, Address{}},
                          drafted_, memory_, r);
    }
    if (tower_) {
        const auto scope = r.scope();
        const std::uint32_t block = info_.picture_block;
        tower_->forward({.rows = block, .columns = info_.picture_patches / block}, r);
    }
    model_->commit({}, memory_, r);
    r.launch(move_tokens_f32, {});
    r.launch(zero_f32, {});
    if (!r.missing_kernels().empty())
        return fail(Fault::unsupported, "the backend " + backend_->device().name + " lacks the kernel " +
                                            *r.missing_kernels().begin() + ", which this model needs");
    scratch_bytes_ = r.peak_bytes();
    scratch_ = TRY(backend_->allocate(scratch_bytes_));
    return Done{};
}

Status ModelRunner::start_disk(const RunnerOptions& options) {
    const std::uint32_t rows = info_.rows_per_step;
    const bool shares_memory = backend_->device().shares_host_memory;
    if (options.expert_bytes.value_or(shares_memory ? 1 : 0) == 0) return Done{};
    const auto shares = options.expert_bytes ? disk_->divide(*options.expert_bytes, rows) : shares_that_fit();
    if (!shares.experts && !shares.rows) return Done{};
    if (disk_->bytes() == 0)
        return fail(Fault::invalid_input,
                    "this model has no experts, and no tables of n-grams, that could "
                    "stay in their files: leave --expert-memory out");
    if (!shares_memory)
        return fail(Fault::unsupported,
                    "experts and tables that stay in their files need a backend that shares the machine's "
                    "memory: leave --expert-memory out");
    TRY(disk_->start(shares, rows));
    info_.expert_bytes = disk_->experts.usable_bytes();
    info_.table_bytes = disk_->rows.usable_bytes();
    const auto tell = [](const char* what, std::uint64_t have, std::uint64_t all) {
        log_info(what + (" have " + mebibytes(have)) + " of memory, and " + mebibytes(all) +
                 " stay in their files (--expert-memory)");
    };
    if (info_.expert_bytes > 0) tell("experts", info_.expert_bytes, disk_->experts.bytes());
    if (info_.table_bytes > 0) tell("rows of tables", info_.table_bytes, disk_->rows.bytes());
    return Done{};
}

/// What has no room in the machine stays in files; nothing, if all has, or if the system does not say how
/// much there is. Tables are the first to stay there: few of their rows are read for a token.
DiskMemory::Shares ModelRunner::shares_that_fit() const {
    const std::uint64_t available = machine_memory().available / 10 * 9, experts = disk_->experts.bytes(),
                        tables = disk_->rows.bytes();
    std::uint64_t rest = scratch_bytes_ + info_.weight_bytes - std::min(info_.weight_bytes, experts);
    for (const AttentionMemory& layer : memory_.attention)
        rest += 2 * std::uint64_t(info_.pages) * layer.shape.page_floats() * sizeof(float);
    if (available == 0 || experts + tables == 0 || rest + experts + tables <= available) return {};
    const std::uint32_t rows = info_.rows_per_step;
    if (tables > 0 && rest + experts <= available)
        return {.experts = {}, .rows = std::max(disk_->rows.least_bytes(rows), available - rest - experts)};
    return disk_->divide(std::max(disk_->least_bytes(rows), available - std::min(available, rest)), rows);
}

/// What was recorded. An error, too, when it needed a part of a file that is not there any more.
Status ModelRunner::run() {
    TRY(backend_->run());
    return disk_->status();
}

Status ModelRunner::reset(std::uint32_t sequence) {
    CHECK(sequence < info_.sequences);
    for (const RecurrentMemory& layer : memory_.recurrent) {
        const std::size_t state = layer.shape.state_floats, tail = layer.shape.tail_floats();
        backend_->launch(zero_f32, {out<float>(layer.states) + sequence * state, std::uint32_t(state)});
        backend_->launch(zero_f32, {out<float>(layer.tails) + sequence * tail, std::uint32_t(tail)});
    }
    return backend_->run();
}

/// The rules of Step; who breaks one has a bug.
void ModelRunner::check(const Step& step) const {
    const std::size_t rows = step.tokens.size();
    CHECK(rows > 0 && rows <= info_.rows_per_step && step.parents.size() == rows);
    CHECK(step.segments.size() <= info_.sequences && step.wanted.size() <= wanted_rows_);
    std::size_t next = 0;
    std::vector<bool> seen(info_.sequences);
    for (const Segment& segment : step.segments) {
        CHECK(segment.first_row == next && segment.rows > 0);
        CHECK(segment.sequence < info_.sequences && !seen[segment.sequence]);
        CHECK(segment.commit || segment.rows <= info_.draft_rows);
        CHECK(segment.committed + segment.rows <= info_.context + (segment.commit ? 0 : info_.draft_rows));
        CHECK(segment.pages.size() >= pages_for(segment.committed + segment.rows));
        seen[segment.sequence] = true;
        for (std::size_t row = next; row < next + segment.rows; ++row) {
            const std::int32_t before = row == next ? no_parent : std::int32_t(row) - 1,
                               parent = step.parents[row];
            CHECK(segment.commit ? parent == before
                                 : parent == no_parent || (parent >= std::int32_t(next) && parent <= before));
            CHECK(step.tokens[row] >= 0 && std::uint32_t(step.tokens[row]) < info_.vocabulary);
        }
        for (const Page page : segment.pages) CHECK(page < info_.pages);
        next += segment.rows;
    }
    CHECK(next == rows);
    CHECK(std::ranges::is_sorted(step.placed, std::less_equal{}, &PlacedRow::row) &&
          (step.placed.empty() || step.placed.back().row < rows));
    CHECK(std::ranges::is_sorted(step.wanted, std::less_equal{}) &&
          (step.wanted.empty() || step.wanted.back() < rows));
}

Result<std::span<float>> ModelRunner::forward(const Step& step) {
    check(step);
    const Batch batch = writer_->write(step, drafts_);
    last_rows_ = batch.rows;
    Recorder r(*backend_, scratch_, scratch_bytes_, disk_.get());
    const Tensor logits = model_->forward(batch, memory_, taps_, r);
    return read_logits(logits);
}

Result<std::span<float>> ModelRunner::read_logits(Tensor logits) {
    TRY(run());
    logits_.resize(std::size_t(logits.rows) * logits.columns);
    TRY(backend_->read(logits.address, std::as_writable_bytes(std::span(logits_))));
    return std::span(logits_);
}

Result<std::span<float>> ModelRunner::draft(const Step& step, Streams streams,
                                            std::span<const std::uint32_t> from) {
    CHECK(drafter_ != nullptr && from.size() == step.tokens.size());
    check(step);
    const bool of_model = streams == Streams::of_model;
    const Tensor rows{of_model ? taps_.places.back() : drafted_, of_model ? last_rows_ : drafted_rows_,
                      model_->shape().width};
    for (const std::uint32_t row : from) CHECK(row < rows.rows);
    std::vector<DraftSegment>
        none;  // guesses are never taken over: they are computed again from the model's rows
    const Batch batch = writer_->write(step, none);
    backend_->write(picked_, std::as_bytes(from));
    drafted_rows_ = batch.rows;
    Recorder r(*backend_, scratch_, scratch_bytes_, disk_.get());
    return read_logits(drafter_->forward(batch, {rows, picked_}, drafted_, memory_, r));
}

Result<std::vector<float>> ModelRunner::drafted() {
    std::vector<float> values(std::size_t(drafted_rows_) * model_->shape().width);
    TRY(backend_->read(drafted_, std::as_writable_bytes(std::span(values))));
    return values;
}

Result<std::vector<float>> ModelRunner::see(const Picture& picture) {
    if (!tower_) return fail(Fault::unsupported, info_.blind_because);
    const std::uint32_t area = picture.side * picture.side;
    CHECK(picture.patches() > 0 && picture.patches() <= info_.picture_patches);
    CHECK(picture.side == info_.picture_side && picture.block == info_.picture_block);
    CHECK(picture.rows % picture.block == 0 && picture.columns % picture.block == 0);
    CHECK(picture.pixels.size() == std::size_t(picture.patches()) * 3 * area);
    const PictureBatch batch = picture_writer_->write(picture);
    Recorder r(*backend_, scratch_, scratch_bytes_);
    const Tensor rows = tower_->forward(batch, r);
    TRY(backend_->run());
    std::vector<float> values(std::size_t(rows.rows) * rows.columns);
    TRY(backend_->read(rows.address, std::as_writable_bytes(std::span(values))));
    return values;
}

Status ModelRunner::commit(std::uint32_t sequence, std::span<const std::uint32_t> path) {
    const auto draft = std::ranges::find(drafts_, sequence, &DraftSegment::sequence);
    CHECK(draft != drafts_.end());
    const CommitBatch batch = writer_->write_commit(*draft, path);
    Recorder r(*backend_, scratch_, scratch_bytes_, disk_.get());
    model_->commit(batch, memory_, r);
    for (const AttentionMemory& layer : memory_.attention)
        r.launch(move_tokens_f32,
                 {in<uint>(batch.from), in<uint>(batch.to), out<float>(layer.keys), out<float>(layer.values),
                  batch.moves, layer.shape.kv_heads, layer.shape.width});
    drafts_.erase(draft);
    return backend_->run();
}

Result<std::vector<float>> ModelRunner::tapped(std::size_t tap) {
    std::vector<float> values(std::size_t(last_rows_) * model_->shape().width);
    TRY(backend_->read(taps_.places.at(tap), std::as_writable_bytes(std::span(values))));
    return values;
}

Result<std::vector<float>> ModelRunner::recurrent_state(std::uint32_t sequence, std::uint32_t layer) {
    const RecurrentMemory& memory = memory_.recurrent.at(layer);
    std::vector<float> values(memory.shape.state_floats);
    TRY(backend_->read(memory.states + sequence * values.size() * sizeof(float),
                       std::as_writable_bytes(std::span(values))));
    return values;
}

Result<std::vector<float>> ModelRunner::conv_tail(std::uint32_t sequence, std::uint32_t layer) {
    const RecurrentMemory& memory = memory_.recurrent.at(layer);
    std::vector<float> values(memory.shape.tail_floats());
    TRY(backend_->read(memory.tails + sequence * values.size() * sizeof(float),
                       std::as_writable_bytes(std::span(values))));
    return values;
}

Result<std::vector<float>> ModelRunner::attention_page(std::uint32_t layer, Page page) {
    const AttentionMemory& memory = memory_.attention.at(layer);
    const std::size_t floats = memory.shape.page_floats(), begin = page * floats * sizeof(float);
    std::vector<float> values(2 * floats);
    const auto bytes = std::as_writable_bytes(std::span(values));
    TRY(backend_->read(memory.keys + begin, bytes.first(bytes.size() / 2)));
    TRY(backend_->read(memory.values + begin, bytes.last(bytes.size() / 2)));
    return values;
}

}  // namespace kapitsa
