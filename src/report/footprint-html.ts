/**
 * The page of the picture: one file that needs no server and no network. What it shows at first is rendered here, by the functions
 * that the script in it calls again whenever a control moves; so it says the same without a script, and in print.
 */
import { allStages, offloads } from "../plan/placement.ts";
import { pageStyle } from "./footprint-html-style.ts";
import {
  type CountName,
  countControls,
  type FootprintPageData,
  nearestStep,
  offloadKey,
  type PageState,
  plannedState,
  writeCount,
} from "./footprint-state.ts";
import { renderFootprintSvg } from "./footprint-svg.ts";
import { renderFootprintTable, shortOffload, viewOf } from "./footprint-view.ts";
import { formatBytes, formatCount, formatReal } from "./numbers.ts";
import { escapeMarkup } from "./svg.ts";

/** @param script the page's own, bundled (`src/report/page`) */
export function renderFootprintHtml(data: FootprintPageData, script: string): string {
  const state = plannedState(data);
  const view = viewOf(data, state);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="shunya">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="icon" href="data:,">
<title>${escapeMarkup(`${view.picture.title}: ${data.model}`)}</title>
<style>${pageStyle}</style>
</head>
<body>
<h1>Which ZeRO stage fits?</h1>
<p class="lead">How much of each card a training job takes when the ranks share nothing (stage 0), the optimizer states (1), also the
gradients (2), also the parameters (3).</p>
<noscript><style>form{display:none}</style><p>The controls need JavaScript. This is the plan as it was made.</p></noscript>
<p id="answer" role="status" aria-live="polite"${view.fits ? "" : ' class="misfit"'}>${escapeMarkup(view.answer)}</p>
<form id="controls" aria-label="The job">
${controls(data, state)}
</form>
<p id="advice" aria-live="polite">${escapeMarkup(view.advice)}</p>
<p id="chosen">${escapeMarkup(view.chosen)}</p>
<figure id="picture">${renderFootprintSvg(view.picture, { chosen: state.stage })}</figure>
<table id="table" aria-label="Memory of one rank by stage">${renderFootprintTable(view.picture)}</table>
<section class="notes">
<h2>What is exact, and what is a model</h2>
${notes(data)}
</section>
<script type="application/json" id="data">${asJson(data)}</script>
<script>${asCode(script)}</script>
</body>
</html>
`;
}

/** Nothing is fetched, whatever the script or the data say. */
const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/** JSON in which no text ends the element that it stands in. */
const asJson = (data: FootprintPageData): string => JSON.stringify(data).replaceAll("<", "\\u003c");

/** The same of code, where "</script" can only be within a string. */
const asCode = (script: string): string => script.replace(/<\/(?=script)/gi, "<\\/");

function controls(data: FootprintPageData, state: PageState): string {
  const counts = (Object.keys(countControls) as CountName[]).map((name) => countControl(name, state[name]));
  const cards = data.cards.some(({ name }) => name === data.card)
    ? data.cards
    : [{ name: data.card, usableBytes: data.room.deviceBytes }, ...data.cards];
  const options = cards.map(({ name, usableBytes }) =>
    option(name, `${name}: ${formatBytes(usableBytes)} usable`, name === state.card),
  );
  const memory = String(state.usableBytes / 1e9);
  return [
    ...counts,
    `<fieldset id="stage"><legend>Stage to point out</legend>${allStages.map((stage) => stageChoice(stage, state.stage)).join("")}</fieldset>`,
    `<div><label for="offload">Offload of optimizer, parameters</label><select id="offload">${offloads
      .map((offload) =>
        option(offloadKey(offload), shortOffload(offload), offloadKey(offload) === offloadKey(state.offload)),
      )
      .join("")}</select></div>`,
    `<div><label for="card">Card</label><select id="card">${options.join("")}${option("", "another", false)}</select></div>`,
    `<div><label for="memory">Usable memory of it, GB</label><input id="memory" type="text" inputmode="decimal" autocomplete="off" value="${memory}"></div>`,
    `<div class="reset"><button type="reset">Back to the plan</button></div>`,
  ].join("\n");
}

function countControl(name: CountName, value: number): string {
  const control = countControls[name];
  const at = nearestStep(control, value);
  return (
    `<div class="count"><label for="${name}">${control.label}</label>` +
    `<input id="${name}" type="text" inputmode="decimal" autocomplete="off" value="${writeCount(value)}">` +
    `<input id="${name}-slider" type="range" min="0" max="${control.steps.length - 1}" step="1" value="${at}" ` +
    `aria-label="${control.label}, slider" aria-valuetext="${formatCount(value)}"></div>`
  );
}

const option = (value: string, name: string, isSelected: boolean): string =>
  `<option value="${escapeMarkup(value)}"${isSelected ? " selected" : ""}>${escapeMarkup(name)}</option>`;

const stageChoice = (stage: number, chosen: number): string =>
  `<label><input type="radio" name="stage" value="${stage}"${stage === chosen ? " checked" : ""}>${stage}</label>`;

const engines: Readonly<Record<FootprintPageData["engine"], string>> = {
  shunya: "a step of Shunya's own engine on its simulated device",
  deepspeed: "formulas for DeepSpeed under PyTorch, fitted to jobs that were measured",
};

function notes({ planned, layers, hidden, training, engine, room, model }: FootprintPageData): string {
  const { job, bytesPerParameter, estimates } = planned;
  const { parameters, gradients, optimizer } = bytesPerParameter;
  const perToken = (bytes: number): string =>
    formatReal(bytes / (job.microBatch * job.sequenceLength * layers * hidden));
  const [first] = estimates;
  const activations = first
    ? `<p><b>A model</b>: activations and buffers. They come from ${engines[engine]}, for ${escapeMarkup(model)} with ` +
      `${formatCount(job.microBatch)} × ${formatCount(job.sequenceLength)} tokens on each of ${formatCount(job.ranks)} ranks: ` +
      `${perToken(first.device.activationsBytes)} bytes of activations per token, layer and element of its width at stage ${first.stage}. ` +
      "Where a control leaves that job, activations are scaled with the tokens and with layers × width, buffers with the parameters of a layer, " +
      "in a model of the same proportions: both with the power 2/3 of Ψ. Attention scores that are kept whole grow faster with the sequence.</p>"
    : "<p>Activations and buffers are <b>left out</b>: the plan has none.</p>";
  return (
    `<p><b>Exact</b>: model states and what is sent. ZeRO's formulas (Rajbhandari et al., SC20): ${parameters} bytes of parameters, ` +
    `${gradients} of gradients and ${optimizer} of optimizer states per parameter (${escapeMarkup(training)}), divided by N where the stage says so. ` +
    "Only the padding of buffers is left out. Sent is counted for one micro-batch: of each Ψ the (N − 1)/N that others own.</p>" +
    activations +
    "<p><b>The rule</b>: a way fits if it takes at most 85 % of the usable memory and leaves 2 GB free. Of those that fit, the one with " +
    "the fewest offloads is used (none; optimizer states on the host; parameters too; disk), and then the smallest stage. " +
    `A rank has ${formatBytes(room.hostBytes)} of host memory and ${formatBytes(room.diskBytes)} of disk, as planned. ` +
    "1 GB is 10⁹ bytes.</p>"
  );
}
