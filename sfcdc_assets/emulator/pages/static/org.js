// Keeps a page current while it is looked at: parts with `data-live` are replaced by what the page now shows, and lists
// with `data-feed` get the events that come. Without this script every page works; it has to be loaded again then.
"use strict";

const REFRESH_MS = 3000;
const RETRY_MS = 2000;
const LEAST_MS = 250; // between two requests for events, however fast they come
const WAIT_SECONDS = 20; // that the org may hold a request for events

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const offline = document.getElementById("offline");

function looked_at() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

async function text_of(url) {
  const answer = await fetch(url, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return { text: await answer.text(), headers: answer.headers };
}

async function refresh() {
  const parts = document.querySelectorAll("[data-live]");
  if (!parts.length) return;
  const { text } = await text_of(location.pathname + location.search);
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of parts) {
    const now = fresh.getElementById(part.id);
    // What a person is about to press stays under the finger.
    if (now && !part.contains(document.activeElement) && now.innerHTML !== part.innerHTML) {
      part.replaceWith(document.importNode(now, true));
    }
  }
}

async function follow(list) {
  const url = `${list.dataset.feed}&wait=${WAIT_SECONDS}&after=${list.dataset.after}`;
  const { text, headers } = await text_of(url);
  const rows = document.createElement("template");
  rows.innerHTML = text; // escaped by the org; the page's policy lets no script in it run
  for (const row of rows.content.querySelectorAll(".event")) row.classList.add("fresh");
  list.prepend(...rows.content.querySelectorAll(".event"));
  while (list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
  list.dataset.after = headers.get("Feed-Next-After");
}

async function keep_doing(work, milliseconds) {
  for (;;) {
    await looked_at();
    try {
      await work();
      offline.hidden = true;
      await pause(milliseconds);
    } catch (error) {
      offline.hidden = false;
      await pause(RETRY_MS);
    }
  }
}

for (const list of document.querySelectorAll("[data-feed]")) {
  // An empty list has white space in it, which the style sheet's :empty does not take for nothing.
  if (!list.children.length) list.textContent = "";
  keep_doing(() => follow(list), LEAST_MS);
}
if (document.querySelector("[data-live]")) keep_doing(refresh, REFRESH_MS);
