/** The page's controls as one value: read from them, written to them, and told when a person changes it. */
import { allStages, type Offload } from "../../plan/placement.ts";
import {
  type CountName,
  countControls,
  type FootprintPageData,
  nearestStep,
  offloadKey,
  offloadOf,
  type PageState,
  parseControl,
  parseGigabytes,
  writeCount,
} from "../footprint-state.ts";
import { formatCount } from "../numbers.ts";

export const byId = <T extends HTMLElement>(id: string): T => {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has lost its #${id}`);
  return found as T;
};

const input = (id: string): HTMLInputElement => byId<HTMLInputElement>(id);
const select = (id: string): HTMLSelectElement => byId<HTMLSelectElement>(id);
const countNames = Object.keys(countControls) as CountName[];
const radios = (): HTMLInputElement[] => [...document.querySelectorAll<HTMLInputElement>("input[name=stage]")];

const gigabytes = (bytes: number): string => String(Number((bytes / 1e9).toFixed(6)));

/** @param except the control that a person is writing in */
export function showState(state: PageState, except?: EventTarget | null): void {
  const set = (control: HTMLInputElement | HTMLSelectElement, value: string): void => {
    if (control !== except) control.value = value;
    control.removeAttribute("aria-invalid");
  };
  for (const name of countNames) {
    set(input(name), writeCount(state[name]));
    const slider = input(`${name}-slider`);
    set(slider, String(nearestStep(countControls[name], state[name])));
    slider.setAttribute("aria-valuetext", formatCount(state[name]));
  }
  for (const radio of radios()) radio.checked = radio.value === String(state.stage);
  set(select("offload"), offloadKey(state.offload));
  set(select("card"), state.card ?? "");
  set(input("memory"), gigabytes(state.usableBytes));
}

/** What a changed control makes of the state. Undefined: what is written in it cannot be. */
type Change = (state: PageState) => PageState | undefined;

function changes(data: FootprintPageData): Map<EventTarget, Change> {
  const found = new Map<EventTarget, Change>();
  for (const name of countNames) {
    const [entry, slider] = [input(name), input(`${name}-slider`)];
    const withCount = (state: PageState, value: number | undefined): PageState | undefined =>
      value === undefined ? undefined : { ...state, [name]: value };
    found.set(entry, (state) => withCount(state, parseControl(name, entry.value)));
    found.set(slider, (state) => withCount(state, countControls[name].steps[Number(slider.value)]));
  }
  for (const radio of radios())
    found.set(radio, (state) => ({ ...state, stage: allStages.find((s) => String(s) === radio.value) ?? state.stage }));
  found.set(select("offload"), (state) => {
    const offload: Offload | undefined = offloadOf(select("offload").value);
    return offload && { ...state, offload };
  });
  found.set(select("card"), (state) => {
    const name = select("card").value;
    if (name === "") return { ...state, card: undefined };
    const known = data.cards.find((card) => card.name === name);
    return { ...state, card: name, usableBytes: known?.usableBytes ?? data.room.deviceBytes };
  });
  found.set(input("memory"), (state) => {
    const usableBytes = parseGigabytes(input("memory").value);
    return usableBytes === undefined ? undefined : { ...state, card: undefined, usableBytes };
  });
  return found;
}

/** @param changed called with the state that the changed control makes of the current one */
export function listen(data: FootprintPageData, current: () => PageState, changed: (next: PageState) => void): void {
  const known = changes(data);
  const form = byId<HTMLFormElement>("controls");
  form.addEventListener("input", ({ target }) => {
    const change = target && known.get(target);
    if (!change) return;
    const next = change(current());
    if (next) {
      showState(next, target);
      changed(next);
    } else (target as HTMLElement).setAttribute("aria-invalid", "true");
  });
  // Left, an entry shows what counts: the last number in it that could be.
  form.addEventListener("focusout", () => showState(current()));
  form.addEventListener("submit", (event) => event.preventDefault());
}
