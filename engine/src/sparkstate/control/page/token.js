// The token: read once from the URL's fragment, which no browser sends anywhere, then kept for this tab only.

const KEY = "sparkstate-token";

/** Moves the token from the address bar into the tab's session storage. True if there was one. */
export function takeFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!location.hash) return false;
  history.replaceState(null, "", location.pathname);
  if (given) keep(given);
  return Boolean(given);
}

export const keep = (token) => sessionStorage.setItem(KEY, token.trim());
export const read = () => sessionStorage.getItem(KEY);
export const forget = () => sessionStorage.removeItem(KEY);
