/** The page of the picture, alive: what the controls say is drawn anew, and stands in the address so that a link shows the same. */
import { type FootprintPageData, type PageState, plannedState, readHash, writeHash } from "../footprint-state.ts";
import { renderFootprintSvg } from "../footprint-svg.ts";
import { renderFootprintTable, viewOf } from "../footprint-view.ts";
import { byId, listen, showState } from "./controls.ts";

const data = JSON.parse(byId("data").textContent ?? "") as FootprintPageData;
const picture = byId("picture");
let state: PageState = readHash(location.hash, data);
/** In CSS pixels; what is printed is drawn for a desk. */
let isPrinting = false;

const leastWidth = 280;
const widest = 1040;
const pictureWidth = (): number => (isPrinting ? widest : Math.max(leastWidth, Math.min(widest, picture.clientWidth)));

/** An element that is read out changes only when its words do. */
function say(id: string, text: string): void {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

function draw(): void {
  const view = viewOf(data, state);
  say("answer", view.answer);
  byId("answer").classList.toggle("misfit", !view.fits);
  say("advice", view.advice);
  say("chosen", view.chosen);
  picture.innerHTML = renderFootprintSvg(view.picture, { width: pictureWidth(), chosen: state.stage });
  byId("table").innerHTML = renderFootprintTable(view.picture);
}

function change(next: PageState): void {
  state = next;
  history.replaceState(null, "", `#${writeHash(state)}`);
  draw();
}

listen(data, () => state, change);
byId<HTMLFormElement>("controls").addEventListener("reset", (event) => {
  event.preventDefault();
  showState(plannedState(data));
  change(plannedState(data));
});
addEventListener("hashchange", () => {
  state = readHash(location.hash, data);
  showState(state);
  draw();
});
addEventListener("beforeprint", () => {
  isPrinting = true;
  draw();
});
addEventListener("afterprint", () => {
  isPrinting = false;
  draw();
});

let drawnWidth = 0;
new ResizeObserver(() => {
  if (pictureWidth() === drawnWidth) return;
  drawnWidth = pictureWidth();
  draw();
}).observe(picture);

showState(state);
draw();
