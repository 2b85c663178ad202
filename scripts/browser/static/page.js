/** Translates captions with models in ONNX, shows the beam and what each word read, and times decoder steps. */

import * as ort from "./runtime/ort.wasm.bundle.min.mjs";

const BEAM = 5;
const PAD_BOS_EOS_UNK = ["<pad>", "<s>", "</s>", "<unk>"];
const [, BOS, EOS, UNK] = [0, 1, 2, 3];
const PAUSE = 80; // milliseconds between the steps that are shown
const EXAMPLES = [
  "A man in a red shirt is playing the guitar.",
  "Two brown dogs run through the snow.",
  "A little girl in a blue dress is sitting on a bench in front of a house and reading a book.",
  "Three people are standing on the beach, and a woman with a yellow hat is taking a picture of the sea.",
];
const MECHANISMS = {
  memory: "Memory: a slot gathers words from the whole caption.",
  windowed_memory: "Windowed memory: a slot gathers words of its stretch of the caption, by learned weights.",
  stretch_means: "Stretch means: a slot is the mean of its stretch of the caption.",
  latents: "Latents: a slot gathers words by a learned query.",
  bahdanau: "Bahdanau: no slots; each step weighs all words.",
};

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = { wasm: new URL("./runtime/ort-wasm-simd-threaded.wasm", import.meta.url).href };

// ---------------------------------------------------------------------------------------------------------------- Text

/** Splits English lines into a model's units, and joins German units into lines. */
export class Tokenizer {
  /**
   * @param {string} vocabulary one unit a line
   * @param {string} codes merges as subword-nmt writes them
   * @param {string[]} abbreviations words after which a full stop is not split off
   * @param {string[]} abbreviationsBeforeNumbers the same, but only if a number follows
   */
  constructor(vocabulary, codes, abbreviations, abbreviationsBeforeNumbers) {
    this.units = [...PAD_BOS_EOS_UNK, ...vocabulary.replace(/\n$/, "").split("\n")];
    this.ids = new Map(this.units.map((unit, id) => [unit, id]).slice(PAD_BOS_EOS_UNK.length));
    this.ranks = new Map();
    for (const merge of codes.split("\n").slice(1)) {
      if (!this.ranks.has(merge)) this.ranks.set(merge, this.ranks.size);
    }
    this.abbreviations = new Set(abbreviations);
    this.abbreviationsBeforeNumbers = new Set(abbreviationsBeforeNumbers);
  }

  /** Returns a line with blanks between its words, by the rules of Moses' tokenizer for English. */
  tokenize(line) {
    let text = line.replace(/\s+/g, " ").replace(/[\x00-\x1f]/g, "").trim();
    text = text.replace(/([^\p{Alphabetic}\p{Nd}\s.'`,-])/gu, " $1 ");
    const dots = (run) => "DOT".repeat(run.length) + "MULTI";
    text = text.replace(/\.{2,}/g, (run, at) => ` ${dots(run)}${at + run.length < text.length ? " " : ""}`);
    text = text.replace(/([^\p{N}]),/gu, "$1 , ").replace(/,([^\p{N}])/gu, " , $1").replace(/(\p{N}),$/gu, "$1 , ");
    text = text
      .replace(/([^\p{Alphabetic}])'([^\p{Alphabetic}])/gu, "$1 ' $2")
      .replace(/([^\p{Alphabetic}\p{N}])'(\p{Alphabetic})/gu, "$1 ' $2")
      .replace(/(\p{Alphabetic})'([^\p{Alphabetic}])/gu, "$1 ' $2")
      .replace(/(\p{Alphabetic})'(\p{Alphabetic})/gu, "$1 '$2")
      .replace(/(\p{N})'s/gu, "$1 's");
    text = this.#splitFullStops(text).join(" ").replace(/\.' ?$/, " . ' ");
    return text.replace(/(?:DOT)+MULTI/g, (marker) => ".".repeat((marker.length - 5) / 3));
  }

  /** Splits full stops off words, except from abbreviations and before a word in lower case. */
  #splitFullStops(text) {
    const words = text.split(/\s+/).filter(Boolean);
    return words.map((word, i) => {
      const next = words[i + 1] ?? "";
      const prefix = word.match(/^(\S+)\.$/)?.[1];
      const keeps =
        prefix === undefined ||
        (prefix.includes(".") && /\p{Alphabetic}/u.test(prefix)) ||
        this.abbreviations.has(prefix) ||
        /^\p{Lowercase}/u.test(next) ||
        (this.abbreviationsBeforeNumbers.has(prefix) && /^[0-9]/.test(next));
      return keeps ? word : `${prefix} .`;
    });
  }

  /** Returns the units of a line: those of its words by byte-pair encoding, "@@" where a word continues. */
  segment(line) {
    const code = (sign) => `％${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
    const escaped = this.tokenize(line).replace(/％|^ | $|(?<= ) |[^\S ]|@(?=@(?: |$))/g, code);
    const words = escaped.split(" ").filter(Boolean);
    return words.flatMap((word) => {
      const parts = this.#merge([...word]);
      return parts.map((part, i) => (i < parts.length - 1 ? `${part}@@` : part));
    });
  }

  /** Applies merges to the letters of a word, always the first in the list that fits. */
  #merge(letters) {
    if (letters.length === 1) return letters;
    let parts = [...letters.slice(0, -1), `${letters.at(-1)}</w>`];
    while (parts.length > 1) {
      const ranks = parts.slice(1).map((right, i) => this.ranks.get(`${parts[i]} ${right}`) ?? Infinity);
      const best = Math.min(...ranks);
      if (best === Infinity) break;
      const [left, right] = [parts[ranks.indexOf(best)], parts[ranks.indexOf(best) + 1]];
      const merged = [];
      for (let i = 0; i < parts.length; i++) {
        const fits = parts[i] === left && parts[i + 1] === right;
        merged.push(fits ? left + right : parts[i]);
        if (fits) i++;
      }
      parts = merged;
    }
    if (parts.at(-1) === "</w>") return parts.slice(0, -1);
    return [...parts.slice(0, -1), parts.at(-1).replace(/<\/w>$/, "")];
  }

  /** Returns the ids of units, without an end of sentence. */
  encode(units) {
    return units.map((unit) => this.ids.get(unit) ?? UNK);
  }

  /** Returns the line of target ids, without Moses' blanks. */
  text(ids) {
    return this.detokenize(this.join(ids.map((id) => this.units[id])));
  }

  /** Joins units into words with blanks between them. */
  join(units) {
    const joined = units.join(" ").replaceAll("@@ ", "").replace(/@@$/, "");
    return joined.replace(/％(?!d[89a-f])([0-9a-f]{4})/g, (_, code) => String.fromCharCode(parseInt(code, 16)));
  }

  /** Returns words as people write them, by the rules of Moses' detokenizer for German. */
  detokenize(line) {
    let result = "";
    let blank = " ";
    const quotes = new Map();
    for (const word of ` ${line} `.replaceAll(" @-@ ", "-").split(/\s+/).filter(Boolean)) {
      let [before, after] = [blank, " "];
      if (/^[\p{Sc}([{¿¡]+$/u.test(word)) {
        after = "";
      } else if (/^[,.?!:;\\%}\])]+$/.test(word)) {
        before = "";
      } else if (/^['"„“`]+$/.test(word)) {
        const quote = /^[„“”]+$/.test(word) ? '"' : word;
        const opens = (quotes.get(quote) ?? 0) % 2 === 0;
        quotes.set(quote, (quotes.get(quote) ?? 0) + 1);
        [before, after] = opens ? [blank, ""] : ["", " "];
      }
      result += before + word;
      blank = after;
    }
    return result.replace(/ {2,}/g, " ").trim();
  }
}

/** Groups units into words: the text of each, and the indices of its units. */
export function wordsOf(units) {
  const words = [];
  units.forEach((unit, i) => {
    const continues = i > 0 && units[i - 1].endsWith("@@");
    if (!continues) words.push({ text: "", indices: [] });
    words.at(-1).text += unit.replace(/@@$/, "");
    words.at(-1).indices.push(i);
  });
  return words;
}

// ------------------------------------------------------------------------------------------------------------- Decoding

/** A model in ONNX: the graph of its encoder, that of a decoder step, and its tokenizer. */
export class Model {
  constructor(description, tokenizer, encoder, step) {
    Object.assign(this, { description, tokenizer, encoder, stepper: step });
  }

  static async load(description, abbreviations, abbreviationsBeforeNumbers) {
    const at = (name) => new URL(`./${description.folder}/${name}`, import.meta.url).href;
    const text = async (name) => (await fetched(at(name))).text();
    const [vocabulary, codes, encoder, step] = await Promise.all([
      text("vocab.txt"),
      text("bpe.codes"),
      ort.InferenceSession.create(at("encoder.onnx")),
      ort.InferenceSession.create(at("decoder_step.onnx")),
    ]);
    const tokenizer = new Tokenizer(vocabulary, codes, abbreviations, abbreviationsBeforeNumbers);
    const model = new Model(description, tokenizer, encoder, step);
    await align(model, [EOS], [EOS]); // the first run of a graph is slower
    return model;
  }

  /** Returns the source ids of units: at most as many as the model takes, and an end of sentence. */
  encodeText(units) {
    return [...this.tokenizer.encode(units.slice(0, this.description.max_source_length)), EOS];
  }

  /** Encodes source ids; returns the memory, and the state of a single hypothesis. */
  async encode(ids) {
    const outputs = await this.encoder.run({ source: new ort.Tensor("int32", ids, [1, ids.length]) });
    const [memory, state] = [{}, {}];
    for (const [name, tensor] of Object.entries(outputs)) {
      (this.stepper.outputNames.includes(`next_${name}`) ? state : memory)[name] = tensor;
    }
    return { memory, state };
  }

  /** Runs a decoder step for one token of each hypothesis; returns its outputs, and the next state. */
  async step(tokens, memory, state, continuations) {
    const inputs = {
      tokens: new ort.Tensor("int32", tokens, [1, tokens.length]),
      continuations: new ort.Tensor("int64", [BigInt(continuations)], [1]),
    };
    const known = Object.entries({ ...memory, ...state }).filter(([name]) => this.stepper.inputNames.includes(name));
    const outputs = await this.stepper.run({ ...inputs, ...Object.fromEntries(known) });
    const next = Object.fromEntries(Object.keys(state).map((name) => [name, outputs[`next_${name}`]]));
    return { outputs, state: next };
  }

  /** Returns the most steps for a source of `length` tokens, both with the end of sentence. */
  limit(length) {
    const { max_length_ratio: ratio, max_length: most } = this.description;
    return Math.min(Math.ceil(ratio * length - 1e-9), most ?? Infinity);
  }
}

/**
 * Beam search, as `memattn.serving.onnx_searcher` has it. Yields the hypotheses after each step, best first.
 *
 * A hypothesis has ids without an end of sentence, a sum of log-probabilities, a score and whether it is finished. The
 * search stops once no unfinished hypothesis can become the best.
 */
export async function* search(model, source, beamSize = BEAM) {
  const penalty = (length) => ((5 + length) / 6) ** model.description.length_penalty;
  const limit = model.limit(source.length);
  let { memory, state } = await model.encode(source);
  let beam = [{ ids: [], last: BOS, logProb: 0, score: 0, finished: false }];
  for (let time = 1; time <= limit; time++) {
    const result = await model.step(beam.map((hypothesis) => hypothesis.last), memory, state, beamSize + 1);
    const { next_tokens: tokens, log_probs: logProbs } = result.outputs;
    const number = tokens.dims[2];
    const candidates = beam.flatMap((hypothesis, parent) => {
      if (hypothesis.finished) return [{ ...hypothesis, parent, last: EOS }];
      return Array.from({ length: number }, (_, c) => {
        const last = tokens.data[parent * number + c];
        const ids = last === EOS ? hypothesis.ids : [...hypothesis.ids, last];
        const logProb = hypothesis.logProb + logProbs.data[parent * number + c];
        const finished = last === EOS || time >= limit;
        return { ids, last, logProb, score: logProb / penalty(ids.length), finished, parent };
      });
    });
    beam = candidates.sort((a, b) => b.score - a.score).slice(0, beamSize);
    state = mapValues(result.state, (tensor) => pick(tensor, beam.map((hypothesis) => hypothesis.parent)));
    yield beam;
    const bounds = beam.filter((hypothesis) => !hypothesis.finished).map(({ logProb }) => logProb / penalty(limit));
    if (beam[0].finished && !bounds.some((bound) => bound > beam[0].score)) return;
  }
}

/** Returns what each target token reads: weights of source positions and, for a model with slots, of these. */
export async function align(model, source, target) {
  let { memory, state } = await model.encode(source);
  const steps = [];
  for (let i = 0; i < target.length; i++) {
    const result = await model.step([i ? target[i - 1] : BOS], memory, state, 1);
    state = result.state;
    steps.push({ positions: result.outputs.weights?.data, slots: result.outputs.slots?.data });
  }
  const contents = model.description.slots ? rowsOf(memory.alpha) : null; // [K][S]
  return { steps, contents };
}

/** Returns the best translation of a line that is not empty; `onStep` gets the hypotheses of each step. */
export async function translate(model, line, onStep = async () => {}) {
  const units = model.tokenizer.segment(line);
  const source = model.encodeText(units);
  const history = [];
  let milliseconds = 0;
  let start = performance.now();
  for await (const beam of search(model, source)) {
    milliseconds += performance.now() - start;
    history.push(beam);
    await onStep(beam);
    start = performance.now();
  }
  const { ids, score } = history.at(-1)[0];
  return { units, source, history, milliseconds, ids, score, text: model.tokenizer.text(ids) };
}

/** Returns the hypotheses at some indices of a tensor [1, Q, W]. */
function pick(tensor, indices) {
  const width = tensor.dims[2];
  const data = new Float32Array(indices.length * width);
  indices.forEach((from, to) => data.set(tensor.data.subarray(from * width, (from + 1) * width), to * width));
  return new ort.Tensor("float32", data, [1, indices.length, width]);
}

/** Returns the rows of a tensor [1, M, N]. */
function rowsOf(tensor) {
  const [, rows, columns] = tensor.dims;
  return Array.from({ length: rows }, (_, i) => tensor.data.subarray(i * columns, (i + 1) * columns));
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response;
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}

// ------------------------------------------------------------------------------------------------------- Time of a step

/** Returns the milliseconds of a decoder step, from the difference between many steps and few in one run. */
export async function stepTime(session, length, few = 2, many = 12) {
  const sizes = { B: 1, Q: BEAM, S: length };
  const special = { steps: 0, continuations: BEAM + 1 };
  const inputs = session.inputMetadata.map(({ name, type, shape }) => {
    const dims = shape.map((size) => sizes[size] ?? size);
    const count = dims.reduce((a, b) => a * b, 1);
    const value = special[name] ?? (type === "float32" ? 0.1 : 1);
    const arrays = { float32: Float32Array, int32: Int32Array, bool: Uint8Array, int64: BigInt64Array };
    return [name, new ort.Tensor(type, new arrays[type](count).fill(type === "int64" ? BigInt(value) : value), dims)];
  });
  const run = async (steps) => {
    const number = new ort.Tensor("int64", [BigInt(steps)], []);
    const start = performance.now();
    await session.run({ ...Object.fromEntries(inputs), steps: number });
    return performance.now() - start;
  };
  await run(few); // the first run of a size is slower
  const times = { few: [], many: [] };
  for (let repeat = 0; repeat < 5; repeat++) {
    times.few.push(await run(few));
    times.many.push(await run(many));
  }
  return (Math.min(...times.many) - Math.min(...times.few)) / (many - few);
}

// ----------------------------------------------------------------------------------------------------------------- Page

const $ = (id) => document.getElementById(id);

/** Returns a new element with properties and children. */
function element(tag, properties = {}, ...children) {
  const { style, ...others } = properties;
  const result = Object.assign(document.createElement(tag), others);
  for (const [name, value] of Object.entries(style ?? {})) result.style.setProperty(name, value);
  result.append(...children);
  return result;
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** What the page shows, and the models that are loaded. */
class Page {
  constructor(content) {
    this.content = content;
    this.loaded = new Map();
    this.run = 0; // number of the newest translation; older ones stop
    this.compared = new Map(); // translations of one caption
    this.#list();
    $("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.translate();
    });
    $("compare").addEventListener("click", () => this.compare());
    $("measure").addEventListener("click", () => this.measure().finally(() => { $("measure").disabled = false; }));
    $("replay").addEventListener("input", () => this.#showBeam(Number($("replay").value)));
    $("source").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        this.translate();
      }
    });
    for (const id of ["translate", "compare", "measure"]) $(id).disabled = false;
  }

  /** Fills in examples, models, and what is said of them. */
  #list() {
    const { models } = this.content;
    $("source").value = EXAMPLES[0];
    for (const text of EXAMPLES) {
      const use = () => {
        $("source").value = text;
        this.translate();
      };
      $("examples").append(element("button", { type: "button", textContent: text, onclick: use }));
    }
    models.forEach((model, i) => {
      const input = element("input", { type: "radio", name: "model", value: i, checked: i === 0 });
      input.addEventListener("change", () => this.translate());
      const bleu = element("small", { textContent: `BLEU ${model.bleu.toFixed(1)}` });
      const text = element("span", {}, `${model.name} `, bleu);
      $("models").append(element("label", { style: { "--colour": model.colour } }, input, text));
    });
    const few = (values) => [...new Set(values)].sort((a, b) => a - b).map((value) => value.toLocaleString("en"));
    const pairs = few(models.map((model) => model.training_pairs)).join(" or ");
    const units = few(models.map((model) => model.units)).join(" or ");
    const epochs = few(models.map((model) => Math.round(model.epochs * 10) / 10));
    const rounds = epochs.length > 1 ? `${epochs[0]} to ${epochs.at(-1)}` : epochs[0];
    $("training").textContent =
      `Each has ${units} units in a layer and learned from ${pairs} captions and their translations, ` +
      `in ${rounds} passes.`;
    const meanings = new Set(models.map(({ mechanism }) => MECHANISMS[mechanism] ?? ""));
    $("mechanisms").textContent = [...meanings].join(" ");
    $("format").textContent = this.content.format;
  }

  /** Returns the model of an index for a run; it is downloaded when it is first used. */
  async model(index, run) {
    const description = this.content.models[index];
    $("status").textContent = `Loading ${description.name} (${(description.bytes / 1e6).toFixed(1)} MB) ...`;
    if (!this.loaded.has(index)) {
      const { abbreviations, abbreviations_before_numbers: beforeNumbers } = this.content;
      const loading = Model.load(description, abbreviations, beforeNumbers);
      this.loaded.set(index, loading);
      loading.catch(() => this.loaded.delete(index)); // the next use tries again
    }
    const model = await this.loaded.get(index);
    if (run === this.run) $("status").textContent = "";
    return model;
  }

  /** Returns whether the caption is empty, and says so. */
  #isEmpty(line) {
    const isEmpty = !line.trim();
    if (isEmpty) $("status").textContent = "Please write an English caption.";
    return isEmpty;
  }

  /** Translates a caption with the chosen model, step by step. */
  async translate(line = $("source").value) {
    const run = ++this.run;
    if (this.#isEmpty(line)) return;
    const index = Number(document.querySelector("[name=model]:checked").value);
    const model = await this.model(index, run);
    if (run !== this.run) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    $("output").hidden = false;
    $("reading-box").hidden = true;
    $("time").textContent = "";
    $("translation").style.setProperty("--colour", model.description.colour);
    this.shown = { model, history: [] };
    const onStep = async (beam) => {
      if (run !== this.run) throw new Stopped();
      this.shown.history.push(beam);
      $("translation").textContent = model.tokenizer.text(beam[0].ids);
      this.#showBeam(this.shown.history.length);
      await pause(still ? 0 : PAUSE);
    };
    const result = await unlessStopped(translate(model, line, onStep));
    if (!result || run !== this.run) return;
    this.#remember(line, index, result.text);
    const steps = result.history.length;
    $("time").textContent =
      `${result.milliseconds.toFixed(0)} ms: encoder and ${steps} decoder steps, beam ${BEAM}, one thread.`;
    await this.#showWords(model, result, run);
  }

  /** Translates the caption with all models, one after the other. */
  async compare() {
    const [run, line] = [++this.run, $("source").value];
    if (this.#isEmpty(line)) return;
    for (const index of this.content.models.keys()) {
      if (this.compared.get("line") === line && this.compared.has(index)) continue;
      const model = await this.model(index, run);
      if (run !== this.run) return;
      const result = await translate(model, line);
      if (run !== this.run) return;
      this.#remember(line, index, result.text);
    }
    await this.translate(line); // the caption may have been edited since
  }

  /** Adds a translation to the table of all models; another caption empties the table. */
  #remember(line, index, text) {
    if (this.compared.get("line") !== line) this.compared = new Map([["line", line]]);
    this.compared.set(index, text);
    const rows = this.content.models.map(({ name, bleu, colour }, i) => {
      const model = element("td", { textContent: name, style: { color: colour } });
      const score = element("td", { textContent: bleu.toFixed(1), className: "number" });
      return element("tr", {}, model, score, element("td", { textContent: this.compared.get(i) ?? "", lang: "de" }));
    });
    $("comparison").replaceChildren(...rows);
    $("comparison-box").hidden = this.compared.size < 3; // the caption, and two translations
  }

  /** Shows the hypotheses after a step, numbered from 1. */
  #showBeam(step) {
    const { model, history } = this.shown;
    const beam = history[step - 1];
    $("replay").max = history.length;
    $("replay").value = step;
    $("replay-label").textContent = `Step ${step} of ${history.length}`;
    $("beam-note").textContent =
      `The ${BEAM} best hypotheses after each step; grey ones are unfinished. Score: log-probability, divided by a ` +
      "penalty that grows with the length.";
    const rows = beam.map(({ ids, score, finished }) => {
      const text = element("td", { textContent: model.tokenizer.text(ids), lang: "de" });
      const number = element("td", { textContent: score.toFixed(2), className: "number" });
      return element("tr", { className: finished ? "" : "unfinished" }, number, text);
    });
    $("beam").tBodies[0].replaceChildren(...rows);
  }

  /** Shows the words of a translation, each of which shows what it read. */
  async #showWords(model, { units, source, ids }, run) {
    if (!ids.length) $("translation").textContent = "(empty)";
    const { steps, contents } = await align(model, source, ids);
    if (run !== this.run || !ids.length || !steps[0].positions) return;
    const words = wordsOf(ids.map((id) => model.tokenizer.units[id]));
    const sourceWords = wordsOf(units.slice(0, source.length - 1));
    sourceWords.push({ text: "(end)", indices: [source.length - 1], isEnd: true });
    const buttons = words.map((word) => {
      const button = element("button", { type: "button", textContent: word.text });
      const show = () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
        this.#showReading(model, word, sourceWords, steps, contents);
      };
      for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, show);
      return button;
    });
    const parts = buttons.flatMap((button) => (/^[,.?!:;%)\]]+$/.test(button.textContent) ? [button] : [" ", button]));
    $("translation").replaceChildren(...parts);
    $("time").append(" Move over a word, or tap it.");
    buttons[Math.min(1, buttons.length - 1)].click(); // the first noun of most captions
  }

  /** Shows the slots and the source words that a target word read, on average over its units. */
  #showReading(model, word, sourceWords, steps, contents) {
    const { colour } = model.description;
    const mean = (key, i) => word.indices.reduce((sum, t) => sum + steps[t][key][i], 0) / word.indices.length;
    const sum = (values, indices) => indices.reduce((total, i) => total + values[i], 0);
    const weights = Array.from(steps[0].positions, (_, i) => mean("positions", i));
    const total = Math.max(1, ...sourceWords.map(({ indices }) => sum(weights, indices)));
    const reads = contents?.map((_, k) => mean("slots", k)) ?? [];
    const mostRead = Math.max(...reads, 1e-9);
    const fullest = contents?.map((content) => Math.max(...sourceWords.map(({ indices }) => sum(content, indices))));
    const heights = reads.map((read) => {
      const bar = element("div", { style: { height: `${(100 * read) / mostRead}%`, background: colour } });
      return element("div", { title: `${(100 * read).toFixed(0)}%` }, bar);
    });
    const rows = sourceWords.map(({ text, indices, isEnd }) => {
      const weight = sum(weights, indices);
      const bar = element("div", { style: { width: `${(100 * weight) / total}%` } });
      const cells = reads.map((read, k) => {
        const share = sum(contents[k], indices);
        const grey = 1 - read / mostRead;
        const background = `color-mix(in srgb, ${colour}, #b4bac0 ${100 * grey}%)`;
        const shade = element("div", { style: { top: 0, background, opacity: share / fullest[k] } });
        return element("div", { title: `slot ${k + 1}: ${(100 * share).toFixed(0)}% "${text}"` }, shade);
      });
      const name = element("div", { className: isEnd ? "word end" : "word", textContent: text, title: text });
      const track = element("div", { className: "bar", title: `${(100 * weight).toFixed(0)}%` }, bar);
      if (!contents) return element("div", { className: "row without-slots" }, name, track);
      return element("div", { className: "row" }, name, track, element("div", { className: "slots" }, ...cells));
    });
    if (contents) {
      const words = element("div", { className: "caption", textContent: "words read" });
      const slots = element("div", { className: "slots" }, ...heights);
      rows.unshift(element("div", { className: "row heights" }, element("div"), words, slots));
    }
    const title = element("span", { textContent: word.text, lang: "de", style: { color: colour } });
    $("reading-title").replaceChildren("What “", title, "” read");
    $("reading").replaceChildren(...rows);
    $("reading").style.setProperty("--colour", colour);
    $("reading-note").textContent = contents
      ? `Right: ${contents.length} slots, one a column. A column's shades say which words it holds; its height above and ` +
        "its colour say how much this word reads it. Bars: the words that come through."
      : "Bars: the weight of each word. This model has no slots.";
    $("reading-box").hidden = false;
  }

  /** Times decoder steps against the source's length, and draws them as they come. */
  async measure() {
    $("measure").disabled = true;
    const results = this.content.timing.map(({ name, colour }) => ({ name, colour, times: [] }));
    const sessions = [];
    for (const { file } of this.content.timing) {
      sessions.push(await ort.InferenceSession.create(new URL(`./${file}`, import.meta.url).href));
    }
    for (const length of [20, 100, 200, 500, 1000, 1500, 2000]) {
      for (const [i, session] of sessions.entries()) {
        await pause(20); // lets the page be drawn
        results[i].times.push([length, await stepTime(session, length)]);
      }
      drawTimes($("chart"), $("times"), results);
    }
    for (const session of sessions) await session.release();
    $("measure").textContent = "Measure again";
  }
}

/** Thrown inside a translation when a newer one has started. */
class Stopped extends Error {}

async function unlessStopped(promise) {
  try {
    return await promise;
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    return null;
  }
}

/** Draws times as lines, and writes them into a table. */
function drawTimes(chart, table, results) {
  const [width, height, left, right, top, bottom] = [Math.min(chart.clientWidth, 720), 280, 48, 24, 30, 44];
  const most = Math.max(...results.flatMap(({ times }) => times.map(([, time]) => time)));
  const unit = 10 ** Math.floor(Math.log10(most));
  const tick = [0.2, 0.5, 1, 2].map((factor) => factor * unit).find((size) => most / size <= 6);
  const highest = Math.ceil(most / tick) * tick;
  const x = (length) => left + ((width - left - right) * length) / 2000;
  const y = (time) => height - bottom - ((height - top - bottom) * time) / highest;
  const parts = [];
  for (let value = 0; value <= highest + tick / 2; value += tick) {
    const label = String(Number(value.toPrecision(3)));
    parts.push(`<path d="M${left} ${y(value)}H${width - right}" stroke="#d8dce1"/>`);
    parts.push(`<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${label}</text>`);
  }
  for (const length of [0, 500, 1000, 1500, 2000]) {
    const label = length.toLocaleString("en");
    parts.push(`<text x="${x(length)}" y="${height - bottom + 18}" text-anchor="middle">${label}</text>`);
  }
  parts.push(`<text x="${(left + width) / 2}" y="${height - 6}" text-anchor="middle">source tokens S</text>`);
  parts.push(`<text x="${left - 34}" y="14">ms per decoder step</text>`);
  for (const { name, colour, times } of results) {
    const points = times.map(([length, time]) => `${x(length)},${y(time)}`).join(" ");
    parts.push(`<polyline points="${points}" fill="none" stroke="${colour}" stroke-width="2.5"/>`);
    for (const [length, time] of times) parts.push(`<circle cx="${x(length)}" cy="${y(time)}" r="3" fill="${colour}"/>`);
    const [length, time] = times.at(-1);
    const label = `x="${width - right}" y="${y(time) - 9}" text-anchor="end" style="fill: ${colour}"`;
    if (length === 2000) parts.push(`<text ${label}>${name}</text>`);
  }
  chart.innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${parts.join("")}</svg>`;

  const names = results.map(({ name, colour }) =>
    element("th", { className: "number", textContent: name, style: { color: colour } }),
  );
  const rows = results[0].times.map(([length], i) => {
    const cells = results.map(({ times }) =>
      element("td", { className: "number", textContent: times[i] ? `${times[i][1].toFixed(2)} ms` : "" }),
    );
    return element("tr", {}, element("td", { className: "number", textContent: length.toLocaleString("en") }), ...cells);
  });
  const head = element("tr", {}, element("th", { className: "number", textContent: "S" }), ...names);
  table.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

/** Reads the description of the models, and starts the page with the first. */
async function start() {
  addEventListener("unhandledrejection", ({ reason }) => {
    $("status").textContent = `Something failed, perhaps the connection: ${reason.message}`;
  });
  const page = new Page(await (await fetched(new URL("./page.json", import.meta.url))).json());
  await page.translate();
}

if (document.getElementById("form")) start();
