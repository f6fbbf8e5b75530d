// The last lines of the driver's and the slots' logs, asked for while somebody looks at them.

import * as api from "./api.js";
import { byId, html, say } from "./dom.js";

let shown = null;

/** Empties the lines once another log is chosen: they would stand beneath its name. */
export function turn() {
  const source = byId("log-source").value;
  if (source === shown) return;
  shown = source;
  byId("log-lines").textContent = "";
  say(byId("log-problem"), "");
}

/** Offers the logs that there are, and shows the chosen one while the section is open. */
export async function refresh(status) {
  offer(["driver", ...status.slots.map((slot) => `slot-${slot.index}`)]);
  turn();
  if (!byId("logs").open) return;
  const source = byId("log-source").value;
  try {
    const told = await api.get(`/v1/logs/${source}`);
    if (source === byId("log-source").value) show(told.lines);
  } catch (failure) {
    if (failure.status === 401) throw failure;
    say(byId("log-problem"), `There are no lines of it now: ${failure.message}`);
  }
}

function offer(sources) {
  const select = byId("log-source");
  if ([...select.options].map((option) => option.value).join() === sources.join()) return;
  const chosen = select.value;
  select.replaceChildren(...sources.map((source) => html("option", { value: source }, source.replace("-", " "))));
  if (sources.includes(chosen)) select.value = chosen;
}

/** Stays at the end if the reader is there, and where the reader is otherwise. */
function show(lines) {
  say(byId("log-problem"), lines.length ? "" : "No line yet.");
  const place = byId("log-lines");
  const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
  const text = lines.join("\n");
  if (place.textContent === text) return;
  place.textContent = text;
  if (atEnd) place.scrollTop = place.scrollHeight;
}
