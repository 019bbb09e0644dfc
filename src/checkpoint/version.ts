/** The version of this package, as its package.json says. */
import { readFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));

export const shunyaVersion: string = version;
