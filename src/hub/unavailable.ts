/** What a user is told who named a model that cannot be had: what was tried, and how to bring it here by hand. */

import { ModelError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import type { Need } from "./needs.ts";
import { folderNameOf, type Repository, titleOf } from "./repository.ts";
import type { HubFailure } from "./requests.ts";
import type { HubSettings } from "./settings.ts";

export interface Attempt {
  readonly repository: Repository;
  readonly need: Need;
  readonly settings: HubSettings;
  /** In the cache; undefined where it has nothing of the revision. */
  readonly missing: readonly string[] | undefined;
  /** Undefined: the hub was not asked. */
  readonly failure: HubFailure | undefined;
}

export function unavailable(attempt: Attempt): ModelError {
  const { repository, settings, missing, failure } = attempt;
  const { owner, name } = repository;
  const folder = `${settings.cache}/${folderNameOf(repository)}`;
  const tried = [
    `folder: there is no ${owner}/${name} here`,
    missing === undefined
      ? `cache: ${folder} has nothing of revision ${repository.revision}`
      : `cache: ${folder} lacks ${missing.slice(0, 3).join(", ")}${missing.length > 3 ? ", ..." : ""}`,
    `${settings.endpoint}: ${reasonOf(attempt)}`,
  ];
  const lines = tried.map((line) => `  ${printable(line)}`).join("\n");
  return new ModelError(
    `${titleOf(repository)} cannot be had. Tried:\n${lines}\n${adviceOf(attempt, folder)}`,
    failure && { cause: failure },
  );
}

type Kind = "unreached" | "interrupted" | "noModel" | "noRevision" | "gated" | "other";

function kindOf({ status, hubCode, outage }: HubFailure): Kind {
  if (outage !== undefined) return outage;
  if (hubCode === "GatedRepo" || status === 403) return "gated";
  if (hubCode === "RevisionNotFound") return "noRevision";
  return status === 401 || status === 404 ? "noModel" : "other";
}

function reasonOf({ repository, settings, failure }: Attempt): string {
  if (failure === undefined) return "not asked, since HF_HUB_OFFLINE is set";
  const tokenState = settings.token === undefined ? "there is no HF_TOKEN" : "the token that is set has no access";
  switch (kindOf(failure)) {
    case "noModel":
      return `it has no such model, or it is private and ${tokenState} (${failure.message})`;
    case "noRevision":
      return `the model has no revision ${repository.revision}`;
    case "gated":
      return `it is given only to those who accepted its terms, and ${tokenState} (${failure.message})`;
    default:
      return failure.message;
  }
}

function adviceOf({ repository, need, settings, failure }: Attempt, folder: string): string {
  const { owner, name, revision } = repository;
  const kind = failure && kindOf(failure);
  const flag = { config: "--model", job: "--model", model: "--model", tokenizer: "--tokenizer", adapter: "--adapter" }[
    need
  ];
  if (kind === "noModel" || kind === "noRevision") return `Check the name; ${flag} also takes the path of a folder.`;
  if (kind === "interrupted") return "Run the command again: it goes on where this one stopped.";
  if (kind === "gated")
    return `Accept the terms at ${settings.endpoint}/${owner}/${name}, and set HF_TOKEN to a token of that account.`;
  const at = revision === "main" ? "" : ` --revision ${revision}`;
  const files = {
    config: " config.json",
    tokenizer: " tokenizer.json tokenizer_config.json",
    job: "",
    model: "",
    adapter: "",
  }[need];
  return [
    "On a machine with a network:",
    "  pip install -U huggingface_hub",
    `  hf download ${owner}/${name}${files}${at} --local-dir ${name}`,
    `Copy the folder ${name} here, and give ${flag} ${name}. Or leave --local-dir out, and copy that machine's`,
    `~/.cache/huggingface/hub/${folderNameOf(repository)} (with its links: cp -a, rsync -a, tar) to`,
    `${folder}, where it is found by its name.`,
  ].join("\n");
}
