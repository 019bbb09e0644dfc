/**
 * A string with memory of its own. What a pattern finds in a text may be a view of it, and a view that is kept keeps the text: a table of
 * words would hold all texts that it has seen.
 */
export const ownCopy = (text: string): string => Buffer.from(text, "utf16le").toString("utf16le");
