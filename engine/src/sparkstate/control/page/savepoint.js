// The button that takes a savepoint. The request carries an id of the page's own, so that a lost answer hides nothing:
// whatever becomes of the request can be asked for by that id.

import * as api from "./api.js";
import { byId, say } from "./dom.js";
import * as token from "./token.js";

const POLL_MS = 500;
const PATIENCE_MS = 2000;
const NEEDS = "Taking a savepoint needs the key admin";
const UNKNOWN = "the request was lost, or its driver ended before the savepoint was complete";
const NOW = { PENDING: "waiting for the end of the epoch", IN_PROGRESS: "in progress" };

let saving = false;
let over = false;

/** The button sleeps while a savepoint is under way, and once the job ends. */
export function enable(isOver) {
  over = isOver;
  byId("savepoint").disabled = saving || over;
}

/** Binds the button and the form for the key; `ended` is called after each request. */
export function bind(ended) {
  byId("savepoint").addEventListener("click", () => take(token.read()).then(ended));
  byId("admin").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("admin-key").value.trim();
    byId("admin-key").value = "";
    if (!saving) take(key).then(ended);
  });
}

async function take(key) {
  saving = true;
  enable(over);
  byId("admin").hidden = true;
  try {
    tellEnd(await follow(await trigger(newId(), key)));
  } catch (failure) {
    if (lacksRights(failure, key)) return askForKey(failure);
    tell(`Failed: ${failure.message}${failure.remedy ? ` (${failure.remedy})` : ""}`, "bad");
  } finally {
    saving = false;
    enable(over);
  }
  return undefined;
}

/** The answer to the request. If it is lost, the driver is asked by the id whether the request has come. */
async function trigger(id, key) {
  let savepoint;
  try {
    savepoint = await api.post("/v1/savepoints", { trigger_id: id }, key);
  } catch (failure) {
    if (failure.status) throw failure;
    return answerOf(id, failure);
  }
  token.keep(key);
  return savepoint;
}

async function follow(begun) {
  let savepoint = begun;
  while (NOW[savepoint.status]) {
    tell(`${savepoint.trigger_id}: ${NOW[savepoint.status]} …`);
    await pause(POLL_MS);
    savepoint = await answerOf(savepoint.trigger_id);
  }
  return savepoint;
}

/** Asks until the driver answers: a lost answer, or a job that cannot tell now, says nothing about the savepoint. */
async function answerOf(id, lost = null) {
  let trouble = lost;
  while (true) {
    if (trouble) {
      tell(`${id}: not known yet (${trouble.message}), asking again …`);
      await pause(PATIENCE_MS);
    }
    try {
      return await api.get(`/v1/savepoints/${encodeURIComponent(id)}`);
    } catch (failure) {
      if (failure.status === 404) throw new api.ApiError(404, UNKNOWN);
      trouble = failure;
    }
  }
}

/** 403: the page has the key read. 401 for a key of the form: it opens nothing, and the page keeps its own. */
const lacksRights = (failure, key) => failure.status === 403 || (failure.status === 401 && key !== token.read());

function askForKey({ status }) {
  tell("");
  byId("admin-why").textContent = `${NEEDS}; ${status === 403 ? "this key may only read" : "the key was refused"}.`;
  byId("admin").hidden = false;
  byId("admin-key").focus();
}

function tellEnd({ status, location, failure }) {
  return status === "COMPLETED" ? tell(`Saved: ${location}`) : tell(`Failed: ${failure}`, "bad");
}

const tell = (text, kind = "") => say(byId("savepoint-result"), text, `result ${kind}`.trim());
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** No `randomUUID`: a browser has it only under https and on localhost. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
