// Constructs of the language, each by what it prints. tests/jinja compares many more with jinja2 itself.
#include "chat/jinja/template.h"

#include <gtest/gtest.h>

#include <ctime>

#include "chat/jinja/from_json.h"

namespace kapitsa::jinja {
namespace {

Result<MarkedText> render(std::string_view source, const Variables& variables = {}) {
    const auto parsed = TRY(Template::parse(source));
    Budget budget{Limits{}};
    return parsed.render(variables, budget, 86400);
}

std::string printed(std::string_view source, const Variables& variables = {}) {
    const auto text = render(source, variables);
    return text ? text->text : "ERROR " + text.error().message;
}

std::string failure(std::string_view source) {
    const auto text = render(source);
    return text ? "printed " + text->text : text.error().message;
}

TEST(Template, BlocksGiveUpTheirLine) {
    EXPECT_EQ(printed("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
    EXPECT_EQ(printed("a\n  {%- if true -%}\n  b\n  {%- endif %}\nc"), "abc");
    EXPECT_EQ(printed("a\n  {%+ if true +%}\nb{% endif %}"), "a\n  \nb");
    EXPECT_EQ(printed("  {# x #}\n{{ 1 }}\n\n"), "1\n");
}

TEST(Template, LoopsKnowWhereTheyAre) {
    EXPECT_EQ(printed("{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}{{ loop.last }}{{ x }} {% else "
                      "%}-{% endfor %}"),
              "1False1 2True3 ");
    EXPECT_EQ(printed("{% for x in 'ab' %}{{ loop.previtem }}|{{ loop.nextitem }};{% endfor %}"), "|b;a|;");
    EXPECT_EQ(printed("{% for x in [] %}a{% else %}none{% endfor %}"), "none");
    EXPECT_EQ(printed("{% for x in range(9) %}{% if x > 2 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
              "012");
}

TEST(Template, OnlyNamespacesCarryValuesOutOfLoops) {
    EXPECT_EQ(printed("{% set y = 0 %}{% set n = namespace(y=0) %}{% for x in [1, 2] %}{% set y = x %}"
                      "{% set n.y = x %}{% endfor %}{{ y }}{{ n.y }}"),
              "02");
}

TEST(Template, MacrosBindTheirArguments) {
    EXPECT_EQ(printed("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=3, a=4) }}"),
              "1243");
    EXPECT_EQ(printed("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{% endcall %}"), "<x>");
    EXPECT_NE(failure("{% macro m() %}{% endmacro %}{{ m(1) }}").find("'m'"), std::string::npos);
}

TEST(Template, NumbersPrintAsPythons) {
    EXPECT_EQ(
        printed("{{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1e16 }} {{ 1.0 }} {{ 0.00001 }}"),
        "3.5 -4 2 1024 1e+16 1.0 1e-05");
    EXPECT_EQ(printed("{{ [1, 'a', none, true, 1.5] }}"), "[1, 'a', None, True, 1.5]");
}

TEST(Template, UndefinedPrintsNothingAndHasNoAttributes) {
    EXPECT_EQ(printed("[{{ x }}{{ none.y }}]"), "[]");
    EXPECT_EQ(failure("\n{{ x.y }}"), "chat template, line 2: 'x' is undefined");
}

TEST(Template, UnknownNamesAreRefusedWhenParsed) {
    EXPECT_NE(failure("{% if false %}\n{{ 1|nope }}{% endif %}").find("line 2: there is no filter 'nope'"),
              std::string::npos);
    EXPECT_NE(failure("{{ 1 is nope }}").find("there is no test 'nope'"), std::string::npos);
    EXPECT_NE(failure("{% include 'x' %}").find("'include'"), std::string::npos);
}

TEST(Template, RaisesItsOwnWords) { EXPECT_EQ(failure("{{ raise_exception('No tools.') }}"), "No tools."); }

TEST(Template, TakesTheTimeFromItsCaller) { EXPECT_EQ(printed("{{ strftime_now('%Y') }}"), "1970"); }

TEST(Template, KeepsNumbersOfJsonAsTheyAre) {
    Budget budget{Limits{}};
    const auto value =
        parse_json_value(budget, R"({"a": 1.0, "b": 123456789012345678901234567890, "c": 1, "a": 2.50})");
    ASSERT_TRUE(value);
    EXPECT_EQ(printed("{{ v|tojson }}", {{"v", *value}}),
              R"({"a": 2.5, "b": 123456789012345678901234567890, "c": 1})");
}

std::string plain_part(const MarkedText& text) {
    std::string part;
    for (const auto& range : text.plain) part += text.text.substr(range.begin, range.end - range.begin) + "|";
    return part;
}

TEST(Provenance, FollowsTextThroughEveryOperation) {
    const Variables variables{{"x", Text::plain(" <a>,<b> ")}};
    const auto plain = [&](std::string_view source) {
        const auto text = render(source, variables);
        return text ? text->text + " " + plain_part(*text) : text.error().message;
    };
    EXPECT_EQ(plain("[{{ x }}]"), "[ <a>,<b> ]  <a>,<b> |");
    EXPECT_EQ(plain("{{ ('[' + x|trim + ']')|upper }}"), "[<A>,<B>] <A>,<B>|");
    EXPECT_EQ(plain("{{ ('[' ~ x ~ ']')[2:5] }}"), "<a> <a>|");
    EXPECT_EQ(plain("{{ x.strip().split(',')|join('+') }}"), "<a>+<b> <a>|<b>|");
    EXPECT_EQ(plain("{{ x.strip().replace('<', '(') }}"), "(a>,(b> a>,|b>|");
    EXPECT_EQ(plain("{{ '%s!' % x.strip() }}"), "<a>,<b>! <a>,<b>|");
    EXPECT_EQ(plain("{{ '{}!'.format(x[1:4]) }}"), "<a>! <a>|");
    EXPECT_EQ(plain("{{ {'k': x.strip()}|tojson }}"), R"({"k": "<a>,<b>"} "<a>,<b>"|)");
    EXPECT_EQ(plain("{{ [x.strip()] }}"), "['<a>,<b>'] <a>,<b>|");
    EXPECT_EQ(plain("{{ x.strip()[::-1] }}"), ">b<,>a< >b<,>a<|");
    EXPECT_EQ(plain("{% set y %}({{ x.strip() }}){% endset %}{{ y }}"), "(<a>,<b>) <a>,<b>|");
    EXPECT_EQ(plain("{{ x.strip()|e }}"), "&lt;a&gt;,&lt;b&gt; &lt;a&gt;,&lt;b&gt;|");
    EXPECT_EQ(plain("{{ 'eq' if x.strip() == '<a>,<b>' and '<b>' in x }}"), "eq ");
}

TEST(Provenance, OfClientJsonIsPlainBracketsAndAll) {
    Budget budget{Limits{}};
    const auto value = parse_json_value(budget, R"({"a": [1, "<|x|>"]})");
    const auto text = render("<{{ v|tojson }}>", {{"v", *value}});
    ASSERT_TRUE(text);
    EXPECT_EQ(plain_part(*text), R"({"a": [1, "<|x|>"]}|)");
}

TEST(Limits, HostileTemplatesFailSoon) {
    const std::clock_t begin = std::clock();
    const std::string deep_calls = "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}";
    const std::string nest =
        "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}";
    const std::string grow =
        "{% set n = namespace(x='ab') %}{% for i in range(100) %}{% set n.x = n.x|join(n.x) %}{% endfor %}";
    const std::string doubled =
        "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x "
        "}}";
    for (const std::string& source :
         {std::string("{% for i in range(1000000000) %}{% endfor %}"), std::string("{{ '-' * 10**10 }}"),
          std::string("{{ [1] * 10**12 }}"), std::string("{{ '%1000000000d' % 1 }}"),
          std::string("{{ 10 ** 100 }}"), std::string("{{ 'x'.center(10**12) }}"), deep_calls, nest, grow,
          doubled, std::string(10u << 20, '('), "{{ " + std::string(1u << 20, '('),
          "{{ " + std::string(1u << 20, '-') + "1 }}",
          "{{ " + std::string(100'000, '[') + std::string(100'000, ']') + " }}",
          "{{ 1" +
              [] {
                  std::string sum;
                  for (int i = 0; i < 100'000; ++i) sum += "+1";
                  return sum;
              }() +
              " }}",
          [] {
              std::string ifs;
              for (int i = 0; i < 10'000; ++i) ifs += "{% if 1 %}";
              return ifs;
          }(),
          std::string("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")}) {
        EXPECT_FALSE(render(source)) << source.substr(0, 80);
    }
    // Of the processor, so that a busy machine does not count; without optimisation and under sanitizers.
    EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 60);
}

}  // namespace
}  // namespace kapitsa::jinja
