"use strict";

// Shades the tokens of an example by the attention weights of the token or slot that is chosen.

const NEGATIVE_HUE = 0;
const ATTENTION_HUE = 205;
const LEAST_PERCENT = 1; // smaller weights have no number

function percent(thousandths) {
  return Math.round(thousandths / 10);
}

// A slot has one hue in all examples. Neighbours are far apart, by the golden angle.
function slotHue(number) {
  return Math.round((number * 137.508) % 360);
}

// Square roots keep weak weights visible, as in the pictures of memattn-eval.
function shade(element, weight, largest, hue) {
  element.style.setProperty("--weight", (0.85 * Math.sqrt(Math.min(1, Math.abs(weight) / largest))).toFixed(3));
  element.style.setProperty("--hue", weight < 0 ? NEGATIVE_HUE : hue);
  const shown = percent(weight);
  element.querySelector("small").textContent = Math.abs(shown) >= LEAST_PERCENT ? shown : "";
}

function clear(element) {
  element.style.setProperty("--weight", 0);
  element.querySelector("small").textContent = "";
}

function largestOf(matrix) {
  return matrix.reduce((most, row) => row.reduce((best, value) => Math.max(best, Math.abs(value)), most), 1);
}

// Isolates keep a token of a right-to-left script from reordering the numbers beside it.
function name(element) {
  return `\u2068${element.firstChild.textContent}\u2069`;
}

// Returns the largest weights first, such as "a (61%), b (20%)".
function inWords(names, weights) {
  return weights
    .map((weight, index) => [weight, names[index]])
    .filter(([weight]) => Math.abs(percent(weight)) >= LEAST_PERCENT)
    .sort(([a], [b]) => Math.abs(b) - Math.abs(a))
    .slice(0, 5)
    .map(([weight, shown]) => `${shown} (${percent(weight)}%)`)
    .join(", ");
}

function connect(block) {
  const data = JSON.parse(block.querySelector("script").textContent);
  const [targets, slots, sources] = ["target", "slots", "source"].map((kind) => [
    ...block.querySelectorAll(`.${kind} > *`),
  ]);
  const reading = block.querySelector(".reading");
  const largest = { weights: largestOf(data.weights), reads: largestOf(data.reads), alpha: largestOf(data.alpha) };
  const hues = data.slots.map(slotHue);
  const sourceNames = sources.map((source) => `“${name(source)}”`);
  slots.forEach((slot, k) => slot.style.setProperty("--hue", hues[k]));

  function press(chosen) {
    for (const button of [...targets, ...slots]) {
      button.setAttribute("aria-pressed", button === chosen);
    }
  }

  function showTarget(t) {
    press(targets[t]);
    targets.forEach(clear);
    sources.forEach((source, s) => shade(source, data.weights[t][s], largest.weights, ATTENTION_HUE));
    slots.forEach((slot, k) => shade(slot, data.reads[t][k], largest.reads, hues[k]));
    const read = slots.length ? `; slots: ${inWords(data.slots, data.reads[t]) || "none by 1% or more"}` : "";
    reading.textContent = `“${name(targets[t])}” attends to: ${inWords(sourceNames, data.weights[t]) || "no token by 1% or more"}${read}.`;
  }

  function showSlot(k) {
    press(slots[k]);
    slots.forEach(clear);
    sources.forEach((source, s) => shade(source, data.alpha[k][s], largest.alpha, hues[k]));
    targets.forEach((target, t) => shade(target, data.reads[t][k], largest.reads, hues[k]));
    const held = inWords(sourceNames, data.alpha[k]) || "no token by 1% or more";
    reading.textContent = `Slot ${data.slots[k]} holds (α): ${held}. The translation shows where it is read.`;
  }

  // A row of buttons is one stop of the Tab key; arrow keys move within it.
  function listen(buttons, show) {
    const left = buttons.length && getComputedStyle(buttons[0].parentNode).direction === "rtl" ? 1 : -1;
    buttons.forEach((button, index) => {
      button.addEventListener("pointerenter", () => show(index));
      button.addEventListener("click", () => show(index));
      button.addEventListener("focus", () => {
        buttons.forEach((each) => { each.tabIndex = each === button ? 0 : -1; });
        show(index);
      });
      button.addEventListener("keydown", (event) => {
        const places = { ArrowLeft: index + left, ArrowRight: index - left, Home: 0, End: buttons.length - 1 };
        const next = buttons[places[event.key]];
        if (next) {
          event.preventDefault();
          next.focus();
        }
      });
    });
    if (buttons.length) {
      buttons[0].tabIndex = 0;
    }
  }

  listen(targets, showTarget);
  listen(slots, showSlot);
  showTarget(0);
}

document.querySelectorAll(".attention").forEach(connect);
