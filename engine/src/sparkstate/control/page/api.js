// Requests to the job's endpoint, on the page's own origin.

import * as token from "./token.js";

const TIMEOUT_MS = 8000;

/** An answer that is no success. `status` 0: no answer at all. */
export class ApiError extends Error {
  constructor(status, message, remedy = "") {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }
}

export const get = (path) => ask("GET", path);
export const post = (path, body, key) => ask("POST", path, body, key);

async function ask(method, path, body, key = token.read()) {
  const headers = { Authorization: `Bearer ${key ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.ok) return await answer.json();
  } catch (reason) {
    throw new ApiError(0, reason.name === "TimeoutError" ? "no answer within 8 s" : "no connection");
  }
  throw await failure(answer);
}

async function failure(answer) {
  if (answer.status === 401) return new ApiError(401, "the token was refused");
  try {
    const problem = await answer.json();
    return new ApiError(answer.status, problem.error, problem.remedy);
  } catch {
    return new ApiError(answer.status, `the endpoint answered ${answer.status}`);
  }
}
