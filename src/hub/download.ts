/** Models on a hub for programs: by their name, with nothing shown unless a teller is given. */

import { UsageError } from "../errors/errors.ts";
import { checkArgument, required, text, withMethods } from "../errors/options.ts";
import { type FetchTeller, fetchModel } from "./fetch-model.ts";
import { parseRepository } from "./repository.ts";
import { hubSettings } from "./settings.ts";

const silent: FetchTeller = { begin: () => {}, progress: () => {}, end: () => {}, notice: () => {} };

/**
 * The folder of a model, for `openModelFolder`: from Hugging Face's cache, else fetched into it. Ranks may all call it: one of them
 * fetches each file, and the others wait.
 * @param name `owner/name` or `owner/name@revision`
 * @throws ModelError where it cannot be had, with what was tried; UsageError for what is no such name
 */
export async function downloadModel(name: string, teller: FetchTeller = silent): Promise<string> {
  checkArgument("downloadModel", "name", name, required(text));
  checkArgument("downloadModel", "teller", teller, withMethods("a teller", Object.keys(silent)));
  const repository = parseRepository(name);
  if (!repository) throw new UsageError(`found ${JSON.stringify(name)}; wanted owner/name, or owner/name@revision`);
  return fetchModel(repository, "model", await hubSettings(), teller);
}
