/** How the page of the picture looks: on a desk, on a phone of 320 pixels, in the dark and on paper. */
import { dark, light } from "./footprint-style.ts";

type Palette = typeof light;

const variables = ({ paper, ink, muted, grid, good, bad }: Palette): string =>
  `--paper:${paper};--ink:${ink};--muted:${muted};--grid:${grid};--good:${good};--bad:${bad}`;

export const pageStyle = `
:root{color-scheme:light;${variables(light)}}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;${variables(dark)}}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem clamp(.6rem,3vw,2rem) 3rem;max-width:1120px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:clamp(1.2rem,4.5vw,1.7rem);line-height:1.25;margin:.3rem 0}
h2{font-size:1.1rem;margin:1.5rem 0 .3rem}
.lead,.notes{color:var(--muted);max-width:75ch}
.lead{margin:.2rem 0 .4rem}
.notes b{color:var(--ink)}
.notes p{margin:.5rem 0}
form{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,230px),1fr));gap:.8rem 1.4rem;padding:1rem;
border:1px solid var(--grid);border-radius:.6rem}
form>*{min-width:0}
label,legend{font-size:.875rem;color:var(--muted)}
.count{display:grid;grid-template-columns:1fr 7.5rem;align-items:center;gap:.1rem .6rem}
.count [type=range]{grid-column:1/-1;width:100%;margin:.2rem 0;accent-color:var(--good);height:1.6rem}
input[type=text],select,button{font:inherit;color:inherit;background:var(--paper);border:1px solid var(--muted);border-radius:.35rem;
padding:.3rem .5rem;width:100%;min-height:2.2rem}
input[type=text]{text-align:right}
[aria-invalid=true]{border-color:var(--bad);outline:1px solid var(--bad)}
button{cursor:pointer}
fieldset{border:0;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:.2rem .4rem}
fieldset label{display:flex;align-items:center;gap:.3rem;color:var(--ink);font-size:1rem;min-height:2.2rem;padding:0 .5rem}
fieldset input{accent-color:var(--good);width:1.1rem;height:1.1rem;margin:0}
.reset{align-self:end}
:focus-visible{outline:3px solid var(--good);outline-offset:2px}
#answer{font-size:1.15rem;font-weight:600;color:var(--good);margin:0 0 .8rem;
padding:.5rem 0;min-height:2.8rem;background:var(--paper)}
#answer.misfit{color:var(--bad)}
#advice{margin:1rem 0 0;font-weight:600}
#advice:empty{display:none}
#chosen{margin:1rem 0 .6rem}
figure{margin:0}
figure svg{display:block;max-width:100%;height:auto}
table{border-collapse:collapse;width:100%;margin-top:1rem;font-size:.95rem}
th,td{text-align:right;padding:.28rem .5rem;border-bottom:1px solid var(--grid);font-weight:400;vertical-align:top}
th[scope=row]{text-align:left}
thead th{font-weight:600}
.sum>*{font-weight:600}
td small{display:block;color:var(--muted);font-weight:400}
td.good{color:var(--good);font-weight:600}
td.bad{color:var(--bad);font-weight:600}
@media screen and (min-height:600px){html{scroll-padding-top:9rem}#answer{position:sticky;top:0;z-index:1}}
@media (max-width:600px){#answer{font-size:1rem}table{font-size:.75rem}th,td{padding:.25rem .15rem}form{padding:.7rem}}
@media print{form,.lead{display:none}body{max-width:none;padding:0}#answer{min-height:0}figure,table{break-inside:avoid}}
`;
