// JSON Schema, as far as it names types: `type` (one or a list), `anyOf`/`oneOf`/`allOf`, `enum`, `const`,
// `nullable`. References are not followed: what they name is taken for any type.
#include "chat/tool_arguments.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace kapitsa {

namespace {

const Json* member(const Json* of, std::string_view name) {
    if (!of || !of->is_object()) return nullptr;
    const auto found = of->find(name);
    return found == of->end() ? nullptr : &*found;
}

bool is_text(const Json* json, std::string_view text) {
    return json && json->is_string() && json->get_ref<const std::string&>() == text;
}

struct Types {
    bool text = false, integer = false, number = false, boolean = false, object = false, array = false,
         null = false;
    bool none() const { return !(text || integer || number || boolean || object || array || null); }
    bool only_text() const { return text && !(integer || number || boolean || object || array || null); }
};

void add_name(Types& types, const Json& name) {
    if (is_text(&name, "string")) types.text = true;
    if (is_text(&name, "integer")) types.integer = true;
    if (is_text(&name, "number")) types.number = true;
    if (is_text(&name, "boolean")) types.boolean = true;
    if (is_text(&name, "object")) types.object = true;
    if (is_text(&name, "array")) types.array = true;
    if (is_text(&name, "null")) types.null = true;
}

void add_type_of(Types& types, const Json& value) {
    types.text |= value.is_string();
    types.integer |= value.is_number_integer();
    types.number |= value.is_number_float();
    types.boolean |= value.is_boolean();
    types.object |= value.is_object();
    types.array |= value.is_array();
    types.null |= value.is_null();
}

constexpr int schema_depth = 8;

void collect(Types& types, const Json* schema, int depth) {
    if (!schema || !schema->is_object() || depth > schema_depth) return;
    if (const Json* type = member(schema, "type")) {
        if (type->is_array())
            for (const Json& name : *type) add_name(types, name);
        else
            add_name(types, *type);
    } else if (const Json* values = member(schema, "enum"); values && values->is_array()) {
        for (const Json& value : *values) add_type_of(types, value);
    } else if (const Json* value = member(schema, "const")) {
        add_type_of(types, *value);
    } else {
        types.object |= member(schema, "properties") != nullptr;
        types.array |= member(schema, "items") != nullptr;
    }
    for (const char* several : {"anyOf", "oneOf", "allOf"})
        if (const Json* choices = member(schema, several); choices && choices->is_array())
            for (const Json& choice : *choices) {
                Types of_choice;
                collect(of_choice, &choice, depth + 1);
                // A choice that names no type allows all of them.
                if (of_choice.none() && std::string_view(several) != "allOf")
                    of_choice = {true, true, true, true, true, true, true};
                types.text |= of_choice.text;
                types.integer |= of_choice.integer;
                types.number |= of_choice.number;
                types.boolean |= of_choice.boolean;
                types.object |= of_choice.object;
                types.array |= of_choice.array;
                types.null |= of_choice.null;
            }
    const Json* nullable = member(schema, "nullable");
    types.null |= nullable && nullable->is_boolean() && nullable->get<bool>();
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view white = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(white);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(white) - begin + 1);
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    append_json_escaped(out, text);
    return out + '"';
}

/// "3.0" where an integer is asked for.
std::string_view without_zero_fraction(std::string_view number) {
    const std::size_t point = number.find('.');
    if (point == number.npos || number.find_first_not_of('0', point + 1) != number.npos) return number;
    return number.substr(0, point);
}

/// Python's words for what JSON writes in small letters; others as they are.
std::string_view json_word(std::string_view word) {
    if (word == "True") return "true";
    if (word == "False") return "false";
    if (word == "None") return "null";
    return word;
}

bool fits(const Json& value, const Types& types) {
    if (value.is_null()) return true;
    if (value.is_boolean()) return types.boolean;
    if (value.is_number_integer()) return types.integer || types.number;
    if (value.is_number()) return types.integer || types.number;
    if (value.is_object()) return types.object;
    if (value.is_array()) return types.array;
    return false;
}

}  // namespace

void append_json_escaped(std::string& to, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '"': to += "\\\""; break;
            case '\\': to += "\\\\"; break;
            case '\n': to += "\\n"; break;
            case '\r': to += "\\r"; break;
            case '\t': to += "\\t"; break;
            default:
                if (static_cast<unsigned char>(c) >= 0x20) {
                    to += c;
                } else {
                    char room[8];
                    std::snprintf(room, sizeof room, "\\u%04x",
                                  static_cast<unsigned>(static_cast<unsigned char>(c)));
                    to += room;
                }
        }
    }
}

bool ToolSchemas::any() const { return tools_ && tools_->is_array() && !tools_->empty(); }

const Json* ToolSchemas::function(std::string_view tool) const {
    if (!any()) return nullptr;
    for (const Json& entry : *tools_) {
        const Json* described = member(&entry, "function");
        if (!described) described = &entry;
        if (is_text(member(described, "name"), tool)) return described;
    }
    return nullptr;
}

const Json* ToolSchemas::parameter(std::string_view tool, std::string_view name) const {
    return member(member(member(function(tool), "parameters"), "properties"), name);
}

bool is_only_text(const Json* schema) {
    Types types;
    collect(types, schema, 0);
    return types.only_text();
}

std::string argument_json(std::string_view raw, const Json* schema) {
    Types types;
    collect(types, schema, 0);
    if (types.only_text()) return quoted(raw);
    std::string_view word = json_word(trimmed(raw));
    if (types.integer && !types.number) word = without_zero_fraction(word);
    const auto value = parse_json(word);
    // A schema that names no type: whatever JSON it is, and a JSON string is one.
    if (value && (types.none() || fits(*value, types))) return std::string(word);
    return quoted(raw);
}

}  // namespace kapitsa
