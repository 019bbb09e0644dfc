/**
 * Colours of a footprint. Hues are those of Okabe and Ito's palette for colour-blind readers, or near to them; kinds are named beside
 * their bars, and parts of a whole are hatched: nothing is told by colour alone. Rules are written out, without variables, since
 * programs that set books do not know those.
 */
import type { PictureKind } from "./footprint.ts";

interface Palette {
  readonly paper: string;
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
  readonly good: string;
  readonly bad: string;
  readonly kinds: Readonly<Record<PictureKind, string>>;
}

export const light: Palette = {
  paper: "#ffffff",
  ink: "#16181d",
  muted: "#545b66",
  grid: "#e2e5ea",
  good: "#00664a",
  bad: "#a3320b",
  kinds: {
    parameters: "#0067a8",
    gradients: "#d55e00",
    optimizer: "#008a66",
    activations: "#b0508c",
    buffers: "#737985",
  },
};

export const dark: Palette = {
  paper: "#14171c",
  ink: "#eceef2",
  muted: "#aab1bd",
  grid: "#2e333c",
  good: "#4fd1a5",
  bad: "#ff9d73",
  kinds: {
    parameters: "#56b4e9",
    gradients: "#f0883e",
    optimizer: "#2ebf97",
    activations: "#dd8fbd",
    buffers: "#a2a8b4",
  },
};

/** Of the part that is 1/N: how much of the colour lies under its hatching. */
const tint = 0.2;

const scope = ".shunya-footprint";

function colours({ paper, ink, muted, grid, good, bad, kinds }: Palette): string {
  const rules: [string, string][] = [
    ["paper", `fill:${paper}`],
    ["ink", `fill:${ink}`],
    ["muted", `fill:${muted}`],
    ["good", `fill:${good}`],
    ["bad", `fill:${bad}`],
    ["grid", `stroke:${grid}`],
    ["base", `stroke:${ink}`],
    ["lead", `stroke:${muted}`],
    ["card", `stroke:${ink}`],
    ["rule", `stroke:${ink}`],
    ["under", `stroke:${paper}`],
    ["halo", `stroke:${paper}`],
    ["frame", `stroke:${good}`],
    ["lens", `stroke:${muted};fill:${paper}`],
    ["psi", `stroke:${muted};fill:${grid}`],
    ...Object.entries(kinds).flatMap(([kind, colour]): [string, string][] => [
      [`${kind}-whole`, `fill:${colour};stroke:${colour}`],
      [`${kind}-shard`, `stroke:${colour}`],
      [`${kind}-tint`, `fill:${colour};fill-opacity:${tint}`],
      [`${kind}-hatch`, `stroke:${colour}`],
    ]),
  ];
  return rules.map(([name, rule]) => `${scope} .${name}{${rule}}`).join("");
}

const shapes = [
  // The picture is laid out for letters of these widths. What a system takes for system-ui may be DejaVu Sans, a seventh wider.
  `${scope}{font-family:-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;font-variant-numeric:tabular-nums}`,
  `${scope} text{font-size:12px}`,
  `${scope} .small{font-size:11px}`,
  `${scope} .title{font-size:19px;font-weight:600}`,
  `${scope} .subtitle{font-size:13px}`,
  `${scope} .stage{font-size:15px;font-weight:600}`,
  `${scope} .total{font-size:13px;font-weight:600}`,
  `${scope} .strong{font-weight:600}`,
  `${scope} .mark{font-size:22px}`,
  `${scope} .grid{stroke-width:1}`,
  `${scope} .base{stroke-width:1.25}`,
  `${scope} .lead{stroke-width:.75;fill:none}`,
  `${scope} .card{stroke-width:1.75}`,
  `${scope} .rule{stroke-width:1;stroke-dasharray:5 3}`,
  `${scope} .under{stroke-width:3.5;stroke-opacity:.6}`,
  `${scope} .halo{stroke-width:5;stroke-linejoin:round;paint-order:stroke}`,
  `${scope} .frame{stroke-width:1.5;fill:none}`,
  `${scope} .lens{stroke-width:.75;stroke-dasharray:2 2}`,
  `${scope} .bar{stroke-width:.75}`,
  `${scope} .hatch{stroke-width:2}`,
].join("");

/** Paper is white wherever the picture is printed. */
export const footprintStyle = `${shapes}${colours(light)}@media screen and (prefers-color-scheme:dark){${colours(dark)}}`;
