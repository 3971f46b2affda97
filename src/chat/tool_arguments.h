// The arguments of a tool call, from the raw text that a model writes to the JSON that its schema asks for.
// Schemas come from clients: whatever they hold, the answer is JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kapitsa {

/// The tools of a request, by name. Owns its share of the document.
class ToolSchemas {
public:
    explicit ToolSchemas(std::shared_ptr<const Json> tools) : tools_(std::move(tools)) {}
    bool any() const;
    bool declares(std::string_view tool) const { return function(tool) != nullptr; }
    /// The schema of a parameter, or null where the tool says nothing of it.
    const Json* parameter(std::string_view tool, std::string_view name) const;

private:
    const Json* function(std::string_view tool) const;
    std::shared_ptr<const Json> tools_;
};

/// Whether every value that the schema allows is a string: such a value needs no look before it is passed on.
bool is_only_text(const Json* schema);

/// One JSON value. The types that are not strings are tried first; what fits none of them is a string, byte
/// for byte. Python's True, False and None are understood. Null `schema`: any JSON, else a string.
std::string argument_json(std::string_view raw, const Json* schema);

/// Appends `text` as the inside of a JSON string.
void append_json_escaped(std::string& to, std::string_view text);

}  // namespace kapitsa
