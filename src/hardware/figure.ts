/** A number with where it is from: presets are only as good as their sources. */
export interface Figure {
  readonly value: number;
  readonly source: string;
}

export const figure = (value: number, source: string): Figure => ({ value, source });

export const gib = 2 ** 30;
export const mib = 2 ** 20;
