#include "chat/jinja/template.h"

#include "chat/jinja/parser.h"

namespace kapitsa::jinja {

Result<Block> Template::parse_source(std::string_view source) { return parse_template(source); }

}  // namespace kapitsa::jinja
