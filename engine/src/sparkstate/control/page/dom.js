// Building elements. Text is always set as text: nothing that a job says becomes markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An HTML element with attributes and children (strings become text). */
export function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Shows `text` in the element, or hides it when there is none. */
export function say(element, text, kind) {
  element.hidden = !text;
  if (element.textContent !== text) element.textContent = text ?? "";
  if (kind !== undefined) element.className = kind;
}
