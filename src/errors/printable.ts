/** Text from files as a terminal may have it: nothing that moves the cursor, hides or turns around what is written. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to show by their numbers
export const unprintable = /[\u0000-\u001F\u007F-\u00A0\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/g;

/** Each such character as JSON may write it, `\u001b`; text that has none stays as it is. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
