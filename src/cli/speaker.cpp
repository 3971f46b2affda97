#include "cli/speaker.h"

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

void Speaker::turn(bool dim) {
    if (dim == dim_) return;
    dim_ = dim;
    if (!dim && line_begun_) std::fputs("\n", out_);
    if (!dim) line_begun_ = false;
    std::fputs(dim ? dim_on : dim_off, out_);
}

void Speaker::say(std::span<const ReplyPiece> pieces) {
    for (const auto& piece : pieces) {
        const bool reasoning = piece.kind == ReplyPiece::Kind::reasoning;
        if (!reasoning && piece.kind != ReplyPiece::Kind::content) continue;
        if (reasoning && !terminal_) continue;
        const std::string text = terminal_ ? printable(piece.text) : piece.text;
        if (text.empty()) continue;
        turn(reasoning);
        std::fwrite(text.data(), 1, text.size(), out_);
        line_begun_ = text.back() != '\n';
    }
    std::fflush(out_);
}

void Speaker::finish() {
    if (line_begun_) std::fputs("\n", out_);
    line_begun_ = false;
    turn(false);
    std::fflush(out_);
}

void Speaker::note(const std::string& line) {
    if (terminal_) std::fprintf(out_, "%s%s%s\n", dim_on, line.c_str(), dim_off);
    std::fflush(out_);
}

}  // namespace kapitsa
