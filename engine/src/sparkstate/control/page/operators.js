// The operators as a picture and as a table, with the metrics that their functions make beside them.

import { byId, html } from "./dom.js";
import * as format from "./format.js";
import * as graph from "./graph.js";

let shown = { nodes: [], edges: [] };

/** A new graph has come. */
export function show(given) {
  shown = given;
  byId("operator-figures").hidden = !given.nodes.length;
  byId("operators").hidden = !given.nodes.length && byId("metrics").hidden;
  drawPicture();
  byId("operator-rows").replaceChildren(...given.nodes.filter((node) => node.figures).map(row));
}

/** Draws the picture for the width at hand. */
export function drawPicture() {
  const place = byId("graph");
  if (!place.clientWidth || !shown.nodes.length) return;
  const left = place.scrollLeft;
  graph.draw(shown, place);
  place.scrollLeft = left;
}

function row({ name, detail, figures }) {
  const number = (text) => html("td", { class: "num" }, text);
  const both = (rate, total) => html("td", { class: "num" }, format.rate(rate), under(format.count(total)));
  return html(
    "tr", { "data-operator": name },
    html("th", { scope: "row" }, name, under(detail)),
    both(figures.rows_in_per_s, figures.rows_in_total), both(figures.rows_out_per_s, figures.rows_out_total),
    number(format.count(figures.late_rows_total)), number(format.count(figures.dropped_rows_total)),
    html("td", { class: "num" }, format.bytes(figures.state_bytes), under(`${format.count(figures.state_rows)} entries`),
      ...figures.operator_states.map(operatorState)),
    html("td", { class: "num" }, format.count(figures.timers), under(`${format.count(figures.timers_fired_total)} fired`)),
    number(figures.busy_share === null ? format.DASH : graph.percent(figures.busy_share)),
  );
}

/** A list or a broadcast map, with the memory that it takes in the slot where it takes most. */
function operatorState(one) {
  const elements = `${format.count(one.elements)} ${one.kind === "broadcast" ? "entries" : "elements"}`;
  const text = `${one.name}: ${elements}, ${format.bytes(one.largest_bytes)} in a slot`;
  return html("p", { class: "under", "data-operator-state": one.name }, text);
}

const under = (text) => html("p", { class: "under" }, text);
