// Requests to the server this page came from. The token is asked for once, kept for this tab alone
// (sessionStorage), and sent in a header: a URL ends up in histories and logs.

const KEY = "quadrant-token";

export const base = new URL("..", document.baseURI);

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function keepToken(value) {
  sessionStorage.setItem(KEY, value);
}

export function request(path, options = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  return fetch(new URL(path.replace(/^\//, ""), base), {
    ...options,
    headers,
    cache: "no-store",
    redirect: "error",
  });
}

// The sentence of a refusal, of either form that the server has.
export async function refusal(response) {
  try {
    const body = await response.json();
    return body.message ?? body.detail ?? response.statusText;
  } catch {
    return response.statusText || `status ${response.status}`;
  }
}
