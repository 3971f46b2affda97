// Writes the corpus that tokenizers are compared on: one JSON string a line, the same lines on every machine.
// Usage: node tools/make_tokenizer_corpus.mjs > corpus.jsonl
// Characters come from tests/tokenizer/unicode14.json (all that Unicode 14 assigns, by script), so that the
// Unicode version of the machine has no say: libraries may differ on what was assigned since.
import fs from 'node:fs';

let state = 20240607;
const random = () => {  // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const text = (n, make) => times(n, make).join('');

// Ranges as gaps and lengths in base 36.
const scripts = Object.entries(
  JSON.parse(fs.readFileSync(new URL('../tests/tokenizer/unicode14.json', import.meta.url), 'utf8')),
).map(([name, packed]) => {
  const characters = [];
  let at = 0;
  for (const item of packed.split(' ')) {
    const [gap, length] = item.split('.').map((n) => parseInt(n, 36));
    at += gap;
    for (const end = at + (length ?? 0); ; ++at) {
      characters.push(String.fromCodePoint(at));
      if (at === end) break;
    }
  }
  return { name, characters };
});
const script = Object.fromEntries(scripts.map((s) => [s.name, s.characters]));
const all = scripts.flatMap((s) => s.characters);

const lines = new Set();
const add = (line) => lines.add(line);

const special = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|vision_start|>', '<|vision_end|>', '<|image_pad|>',
  '<|video_pad|>', '<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<think>', '</think>',
  '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|fim_pad|>', '<|repo_name|>', '<|file_sep|>',
  '<|object_ref_start|>', '<|box_end|>', '<|quad_start|>'];
const broken_special = ['<|im_end', '|im_end|>', '<|im_end|', '<|IM_END|>', '<<|im_end|>>', '<|im_<|im_end|>end|>', '<think',
  '< think>', '<|im_end|>\u0338', '</think >', '<|endoftext|', '<|im\u200b_end|>'];
const marks = [...'\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0316\u0323\u0327\u0328\u0331\u0338\u0344\u0345\u0358'];
const spaces = [' ', ' ', ' ', '\t', '\n', '\r\n', '\r', '\u0085', '\u00a0', '\u1680', '\u2003', '\u2028', '\u2029', '\u202f',
  '\u205f', '\u3000', '\v', '\f', '\u180e', '\u200b', '\ufeff', '\u2060', '\u001c', '\u001d', '\u001e', '\u001f'];
const latin_words = ('the of and to in is it you that he was for on are with as I his they be at one have this from or had by hot ' +
  'word but what some we can out other were all there when up use your how said an each she which do their time if will way ' +
  "about many then them write would like so these her long make thing see him two has look more day could go come did number " +
  "don't I'll we've they're she'd it's I'M YOU'RE WE'LL rock'n'roll O'Brien naïve café über Straße Ærøskøbing garçon coöperate " +
  'supercalifragilisticexpialidocious antidisestablishmentarianism').split(' ');
const word = (characters) => text(1 + below(8), () => pick(characters));
const number = () => pick([String(below(10)), String(below(1e6)), (random() * 1e4).toFixed(3), '0x' + below(1e9).toString(16),
  '1,234,567.89', '1e-' + below(99), '٣٤٥', '१२३', '四十二', '²³', '½', 'Ⅷ', '12:34:56', '2024-06-07', '192.168.0.1', '007']);
const punctuation = () => pick([...'.,;:!?-_()[]{}"\'`~@#$%^&*+=<>/\\|', '...', '->', '=>', '::', '&&', '||', '!==', '«', '»', '—', '…',
  '。', '、', '「', '」', '¿', '¡', '؟', '،', '\n', '.\n', '!\r\n', '\n\n', '?!\n\n\n']);

// Every script: words of it with spaces, marks, numbers and ASCII between.
for (const { characters } of scripts)
  times(24, () =>
    add(text(1 + below(12), () => pick([
      () => word(characters), () => ' ' + word(characters), () => ' ' + word(characters), () => word(characters) + punctuation(),
      () => ' ' + number(), () => pick(spaces), () => pick(marks), () => pick(latin_words),
    ])())));
// Each character of Unicode 14 stands somewhere: in runs of 24 neighbours (CJK and Hangul: one in 8 and more).
for (const { name, characters } of scripts) {
  const step = name === 'cjk' ? 40 : name === 'hangul' ? 6 : name === 'tangut' || name === 'egyptian' ? 4 : 1;
  for (let i = 0; i < characters.length; i += 24 * step)
    add(times(24, (j) => characters[i + j * step] ?? '').map((c, j) => (j % 5 === 4 ? c + ' ' : c)).join(''));
}
// Any characters at all.
times(1200, () => add(text(1 + below(30), () => pick(all))));
// Latin prose, contractions in every case, NFD and NFC of the same.
times(1200, () => {
  const prose = times(3 + below(25), () => pick([() => pick(latin_words), () => pick(latin_words), number,
    () => pick(latin_words).toUpperCase(), () => pick(latin_words) + punctuation()])()).join(' ');
  add(prose);
  if (random() < 0.3) add(prose.normalize('NFD'));
});
for (const before of ['I', 'x', ' ', '', '1', 'é', '中', '.', "'"])
  for (const after of ["'s", "'S", "'t", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'lL", "'d", "'ſ", "’s", "'K", "'st", "'lll"])
    for (const end of ['', 'a', ' a', '1']) add(before + after + end);
// Combining marks in every order, and runs of them.
times(900, () => add(text(1 + below(6), () => pick([...'aeiouAEOUncszķơŵ한ガ<>= \n']) + text(below(5), () => pick(marks)))));
times(300, () => add(text(1 + below(10), () => pick([...script.combining]) + pick(['', 'a', ' ', 'é', '\u0300']))));
// Hangul: jamo, syllables, and syllables with more jamo after them.
times(600, () => add(text(1 + below(8), () => pick([
  () => String.fromCodePoint(0x1100 + below(0x13)) + String.fromCodePoint(0x1161 + below(0x15)) +
    (random() < 0.5 ? String.fromCodePoint(0x11a8 + below(0x1b)) : ''),
  () => String.fromCodePoint(0xac00 + below(11172)) + (random() < 0.3 ? String.fromCodePoint(0x11a7 + below(0x1d)) : ''),
  () => String.fromCodePoint(0x1100 + below(256)), () => ' ', () => pick(marks), () => String.fromCodePoint(0x3131 + below(51)),
])())));
// Indic vowel signs that compose, nukta forms, singletons and exclusions of composition.
const pairs = ['\u0b47\u0b3e', '\u0b47\u0b56', '\u0bc6\u0bbe', '\u0bc7\u0bbe', '\u0cbf\u0cd5', '\u0cc6\u0cc2\u0cd5', '\u0d46\u0d3e',
  '\u0dd9\u0dcf\u0dca', '\u1025\u102e', '\u0958', '\u0915\u093c', '\u0929', '\u0928\u093c', '\u09c7\u09be', '\u2126', '\u212a', '\u212b',
  '\u2adc', '\ufb1d', '\ufb2a', '\u0340', '\u0341', '\u0343', '\u0344', '\u0374', '\u037e', '\u0387', '\u1f71', '\u1ffd', '\u2000', '\u2329',
  '\uf900', '\ufa0e', '\u{1d15e}', '\u{1d1bb}', '\u{2f800}', '\u{11131}\u{11127}', '\u{114b9}\u{114ba}', '\u{110a5}', '\u{11938}', '\u3099',
  'か\u3099', 'ハ\u309a', '\u1e9b\u0323', 'q\u0307\u0323', 'd\u0307\u0323', '\u1100\uac00\u11a8', '\u0fb2\u0f81', '\u0f73', '\u0f71\u0f72'];
times(600, () => add(text(1 + below(6), () => pick(pairs) + pick(['', '', ' ', 'x', '\u0301', '\u0327', '\n']))));
// Emoji: joined, with skin tones, flags, keycaps, tags.
const emoji = ['👩‍👩‍👧‍👦', '👨🏽‍💻', '🏳️‍🌈', '🏴‍☠️', '🇩🇪', '🇯🇵🇺🇸🇫', '1️⃣', '#️⃣', '❤️‍🔥', '🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}', '😀', '🙏🏿',
  '👁️‍🗨️', '⌚︎', '🤷🏻‍♀️', '\u200d', '\ufe0f', '🏽'];
times(500, () => add(text(1 + below(8), () => pick([() => pick(emoji), () => ' ' + pick(emoji), () => pick(latin_words), () => pick(spaces)])())));
// Right to left, with marks of direction.
times(500, () => add(text(2 + below(10), () => pick([() => word(script.arabic), () => word(script.hebrew), () => ' ', () => number(),
  () => pick(['\u200e', '\u200f', '\u202b', '\u202c', '\u2067', '\u2069', '\u061c']), () => pick(latin_words), () => punctuation()])())));
// White space of every kind in runs, before and after words, at both ends.
times(1600, () => add(text(1 + below(8), () => text(below(5), () => pick(spaces)) + pick(['', 'x', 'word', '1', '.', '中', '{', '\u0301']))));
for (let n = 1; n <= 40; ++n) for (const s of [' ', '\n', '\t', '\r\n', '\u00a0', '\u3000', '\u0085', '\ufeff'])
  for (const end of ['', 'x', '\n', '.']) add(s.repeat(n) + end);
// Control characters.
times(400, () => add(text(1 + below(12), () => pick([() => String.fromCharCode(below(32)), () => String.fromCharCode(127 + below(34)), () => pick(latin_words)])())));
// Digits.
times(400, () => add(text(1 + below(6), () => pick([() => number(), () => text(below(20), () => below(10)), () => pick([' ', '.', ',', '-', 'x'])])())));
// Special tokens, whole, broken, doubled, among words.
times(1400, () => add(text(1 + below(6), () => pick([() => pick(special), () => pick(special), () => pick(broken_special),
  () => ' ' + pick(latin_words), () => pick(spaces), () => word(pick(scripts).characters), () => pick(marks)])())));
for (const s of [...special, ...broken_special]) for (const f of ['%', ' % ', 'a%b', '\n%\n', '%%', 'e\u0301%\u0301', "'%s"]) add(f.replaceAll('%', s));
// Source code.
const id = () => pick(['i', 'x1', 'tmp', 'value', 'get_name', 'parseHTML', 'MAX_SIZE', '_private', '__init__', 'camelCaseName', 'π', 'größe', 'данные', '变量'])
  + (random() < 0.2 ? below(100) : '');
const code = [
  () => `def ${id()}(self, ${id()}: int = ${below(99)}) -> str:\n    """Doc's string."""\n    return f"{${id()}!r:>10}" if ${id()} else ${id()}[::-1]\n`,
  () => `class ${id()}(Base):\n\t@property\n\tdef ${id()}(self): yield from (${id()} ** 2 for _ in range(${below(1e4)}))\n`,
  () => `for (int ${id()} = 0; ${id()} < ${id()}.size(); ++${id()}) { std::cout << ${id()}[i] << "\\n"; }  // ${pick(latin_words)}\r\n`,
  () => `template <typename T, std::size_t N>\nconstexpr auto ${id()}(const std::array<T, N>& ${id()}) noexcept -> decltype(auto) {\n    return [&]{ return ${id()}; }();\n}\n`,
  () => `#define ${id()}(x) do { if (!(x)) abort(); } while (0)\n#include <${id()}.h>\n`,
  () => `const ${id()} = async ({ ${id()}, ...rest }) => (await fetch(\`/api/\${${id()}}?q=${below(9)}\`))?.json() ?? [];\n`,
  () => `export default function ${id()}<T extends object>(p: Partial<T>): asserts p is T { /* ${pick(latin_words)} */ }\n`,
  () => `fn ${id()}<'a>(${id()}: &'a mut Vec<u8>) -> Result<(), Box<dyn Error>> { ${id()}.push(b'\\n'); Ok(()) }\n`,
  () => `func (s *Server) ${id()}(w http.ResponseWriter, r *http.Request) {\n\tif err := s.${id()}(r.Context()); err != nil {\n\t\treturn\n\t}\n}\n`,
  () => `public static <T> void ${id()}(List<? super T> ${id()}) throws IOException { ${id()}.forEach(System.out::println); }\n`,
  () => `SELECT ${id()}, COUNT(*) FROM "${id()}" WHERE ${id()} LIKE '%o''k%' GROUP BY 1 ORDER BY 2 DESC LIMIT ${below(100)};\n`,
  () => `<div class="${id()}" style="width:${below(100)}%">&nbsp;${pick(latin_words)}<br/></div>\n`,
  () => `.${id()} > a:hover::before { content: "\\201C"; margin: 0 auto -${below(9)}px; }\n`,
  () => `{"${id()}": [${below(9)}, -1.5e+10, null, true], "${id()}": {"k": "v\\u00e9"}}\n`,
  () => `if [ -z "$${id()}" ]; then\n  echo "\${${id()}:-default}" | sed -E 's/[^a-z]+//g' >&2\nfi\n`,
  () => `main :: IO ()\nmain = mapM_ (putStrLn . show) $ filter ((== 0) . (\`mod\` ${below(9)})) [1..]\n`,
  () => `(defun ${id()} (x) "doc" (let ((${id()} (1+ x))) (if (> x ${below(9)}) 'yes #'car)))\n`,
  () => `Public Sub ${id()}()\r\n    Dim ${id()} As Integer: ${id()} = &H${below(999)} ' comment\r\nEnd Sub\r\n`,
  () => `let rec ${id()} = function [] -> 0 | _ :: t -> 1 + ${id()} t;;\n`,
  () => `module ${id()}; always @(posedge clk) q <= #1 8'hFF; endmodule\n`,
  () => `  ${id()}:\n    - name: "${pick(latin_words)}"\n      run: |\n        make -j$(nproc)\n`,
  () => `\\begin{equation}\n  \\sum_{i=0}^{n} x_i^2 \\leq \\frac{${below(9)}}{\\pi}\n\\end{equation}\n`,
  () => `<?php echo $${id()}->${id()}['key'] ?? "none"; ?>\n`,
  () => `%${id()} = call i32 @${id()}(i8* getelementptr inbounds ([${below(99)} x i8], [4 x i8]* @.str, i64 0, i64 0))\n`,
  () => `mov eax, dword ptr [rbp - ${below(99)}]\t; ${pick(latin_words)}\n`,
  () => `@@ -${below(99)},7 +${below(99)},6 @@\n-${id()} = 1\n+${id()} = 2\n \n`,
  () => `| ${pick(latin_words)} | ${number()} |\n|:---|---:|\n* **${pick(latin_words)}**: \`${id()}\`\n\n`,
  () => `ruby.each_with_index { |${id()}, i| puts "#{${id()}}: #{i}" unless i.zero? }\n`,
  () => `val ${id()} = listOf(1, 2).map { it * ${below(9)} }.takeIf { !it.isEmpty() } ?: error("no")\n`,
  () => `library(dplyr); ${id()} %>% filter(x >= ${below(9)}) %>% summarise(m = mean(y, na.rm = TRUE))\n`,
];
times(2200, () => {
  const indent = pick(['', '', '    ', '\t', '  ', '        ', '\t\t']);
  add(text(1 + below(5), () => indent + pick(code)()));
});
// Long runs: one character, one pair, one word.
for (const s of ['a', ' ', '\n', '=', '-', '0', 'é', '中', '한', 'ab', 'the', '\u0301', '👍', '🏽\u200d', 'A', '_', '. ', '\r\n', ' \n', '<|im_end|>', '9 ', 'ß', "'s"])
  for (const n of [49, 50, 63, 64, 65, 100, 257, 1000, 4001]) add(s.repeat(n));
times(40, () => add(text(2000, () => pick([...'abcdefgh']))));
times(20, () => add(text(500, () => pick(all))));

process.stdout.write([...lines].map((line) => JSON.stringify(line.toWellFormed()) + '\n').join(''));
