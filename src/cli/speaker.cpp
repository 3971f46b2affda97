#include "cli/speaker.h"

#include "base/terminal.h"

namespace kapitsa {
namespace {

constexpr const char *dim_on = "\033[2m", *dim_off = "\033[22m";

}  // namespace

std::string printable(std::string_view text) {
    std::string kept;
    kept.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        // C1 controls are two bytes in UTF-8: C2 80 to C2 9F.
        if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
            ++i;
            continue;
        }
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) continue;
        kept.push_back(text[i]);
    }
    return kept;
}

Manner manner_of(std::FILE* stream) {
    if (!is_terminal(stream)) return Manner::file;
    return shows_colour(stream) ? Manner::dim : Manner::plain;
}

void Speaker::end_line() {
    if (line_begun_) std::fputs("\n", out_);
    line_begun_ = false;
}

void Speaker::turn(bool reasoning) {
    if (reasoning == reasoning_) return;
    reasoning_ = reasoning;
    if (!reasoning) end_line();
    if (manner_ == Manner::dim)
        std::fputs(reasoning ? dim_on : dim_off, out_);
    else
        std::fputs(reasoning ? "[thinking]\n" : "[end of thinking]\n", out_);
}

void Speaker::say(std::span<const ReplyPiece> pieces) {
    for (const auto& piece : pieces) {
        const bool reasoning = piece.kind == ReplyPiece::Kind::reasoning;
        if (!reasoning && piece.kind != ReplyPiece::Kind::content) continue;
        if (reasoning && manner_ == Manner::file) continue;
        const std::string text = manner_ == Manner::file ? piece.text : printable(piece.text);
        if (text.empty()) continue;
        turn(reasoning);
        std::fwrite(text.data(), 1, text.size(), out_);
        line_begun_ = text.back() != '\n';
    }
}

void Speaker::finish() {
    end_line();
    turn(false);
}

void Speaker::note(const std::string& line) {
    const bool dim = manner_ == Manner::dim;
    std::FILE* out = manner_ == Manner::file ? stderr : out_;
    std::fprintf(out, "%s%s%s\n", dim ? dim_on : "", line.c_str(), dim ? dim_off : "");
}

}  // namespace kapitsa
