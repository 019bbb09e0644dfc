/** A model on a hub, as people write it: `owner/name`, or `owner/name@revision`. */

import { basename, dirname } from "node:path";

export interface Repository {
  readonly owner: string;
  readonly name: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
}

const part = "[A-Za-z0-9_](?:[\\w.-]{0,94}[\\w])?";
const pattern = new RegExp(`^(${part})/(${part})(?:@(\\w[\\w./-]{0,200}))?$`);

/** Undefined where the text cannot be such a name, whatever the hub has. */
export function parseRepository(text: string): Repository | undefined {
  const [, owner, name, revision = "main"] = pattern.exec(text) ?? [];
  if (owner === undefined || name === undefined || /--|\.\./.test(text)) return undefined;
  if (revision.split("/").some((step) => step === "" || step === ".")) return undefined;
  return { owner, name, revision };
}

export const titleOf = ({ owner, name, revision }: Repository): string =>
  revision === "main" ? `${owner}/${name}` : `${owner}/${name}@${revision}`;

export const isCommit = (revision: string): boolean => /^[0-9a-f]{40}$/.test(revision);

/** The name of a repository's folder in the cache. */
export const folderNameOf = ({ owner, name }: Repository): string => `models--${owner}--${name}`;

/** The repository and commit of a folder in a cache, `owner/name@1234567`; undefined for any other folder. */
export function titleOfSnapshot(folder: string): string | undefined {
  const snapshots = dirname(folder);
  const [, owner, name] = /^models--(.+?)--(.+)$/.exec(basename(dirname(snapshots))) ?? [];
  if (basename(snapshots) !== "snapshots" || !isCommit(basename(folder)) || owner === undefined) return undefined;
  return `${owner}/${name}@${basename(folder).slice(0, 7)}`;
}
