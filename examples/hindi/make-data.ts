// Writes the Hindi text and the conversations of this example: npx tsx examples/hindi/make-data.ts FOLDER
// Everything is put together from the small grammar below, so that the example brings its data along: 26 states of India and their capitals,
// and people who do things in them. The same numbers come out each time.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** State, its capital. (Haryana and Punjab, who share theirs, are left out.) */
const capitals: readonly (readonly [state: string, capital: string])[] = [
  ["आंध्र प्रदेश", "अमरावती"],
  ["अरुणाचल प्रदेश", "ईटानगर"],
  ["असम", "दिसपुर"],
  ["बिहार", "पटना"],
  ["छत्तीसगढ़", "रायपुर"],
  ["गोवा", "पणजी"],
  ["गुजरात", "गांधीनगर"],
  ["हिमाचल प्रदेश", "शिमला"],
  ["झारखंड", "रांची"],
  ["कर्नाटक", "बेंगलुरु"],
  ["केरल", "तिरुवनंतपुरम"],
  ["मध्य प्रदेश", "भोपाल"],
  ["महाराष्ट्र", "मुंबई"],
  ["मणिपुर", "इंफाल"],
  ["मेघालय", "शिलांग"],
  ["मिज़ोरम", "आइज़ोल"],
  ["नागालैंड", "कोहिमा"],
  ["ओडिशा", "भुवनेश्वर"],
  ["राजस्थान", "जयपुर"],
  ["सिक्किम", "गंगटोक"],
  ["तमिलनाडु", "चेन्नई"],
  ["तेलंगाना", "हैदराबाद"],
  ["त्रिपुरा", "अगरतला"],
  ["उत्तर प्रदेश", "लखनऊ"],
  ["उत्तराखंड", "देहरादून"],
  ["पश्चिम बंगाल", "कोलकाता"],
];

// A verb agrees with who does it: रहता है of a man, रहती है of a woman.
const men = ["मोहन", "अर्जुन", "रवि", "इमरान", "जोसेफ़", "विक्रम", "सुरेश", "हरप्रीत"];
const women = ["सीता", "मीरा", "फ़ातिमा", "लक्ष्मी", "अनीता", "कविता", "मारिया", "गुरप्रीत"];
const deeds = ["किताब पढ़", "चाय पी", "गाना गा", "खाना बना", "पत्र लिख", "बाग़ में टहल", "नदी में तैर", "बाज़ार जा"];
const times = ["सुबह", "दोपहर को", "शाम को", "रात को", "हर दिन", "कभी-कभी"];
const years = ["दो", "तीन", "चार", "पाँच", "सात", "दस", "बारह", "बीस"];

/** Numbers from 0 up to 1 that depend on the seed alone (Lehmer's generator). */
function dice(seed: number): <T>(choices: readonly T[]) => T {
  let state = seed;
  return (choices) => {
    state = (state * 48_271) % 2_147_483_647;
    return choices[Math.floor((state / 2_147_483_647) * choices.length)]!;
  };
}

/** One paragraph: a place, and somebody who lives there. */
function paragraph(pick: <T>(choices: readonly T[]) => T): string {
  const [state, capital] = pick(capitals);
  const isWoman = pick([true, false]);
  const name = pick(isWoman ? women : men);
  const does = isWoman ? "ती है" : "ता है";
  const place = pick([
    `${state} की राजधानी ${capital} है।`,
    `${capital} ${state} की राजधानी है।`,
    `भारत के राज्य ${state} की राजधानी ${capital} कहलाती है।`,
  ]);
  const home = `${name} ${pick(years)} साल से ${capital} में रह${does}।`;
  const [first, second] = [pick(deeds), pick(deeds)];
  const habit = `वह ${pick(times)} ${first}${does} और ${pick(times)} ${second}${does}।`;
  return `${pick([`${place} ${home}`, `${home} ${place}`])} ${habit}`;
}

const question = (state: string): string => `${state} की राजधानी क्या है?`;
const answer = (state: string, capital: string): string => `${state} की राजधानी ${capital} है।`;

/** Conversations in the layout of chat data: one or two questions, each with its answer. */
function conversation(pick: <T>(choices: readonly T[]) => T): object {
  const turns = pick([1, 1, 2]);
  const messages = Array.from({ length: turns }, () => pick(capitals)).flatMap(([state, capital]) => [
    { role: "user", content: question(state) },
    { role: "assistant", content: answer(state, capital) },
  ]);
  return { messages };
}

const folder = process.argv[2] ?? "examples/hindi/data";
const pick = dice(5);
const text = Array.from({ length: 8_000 }, () => paragraph(pick));
const chats = Array.from({ length: 600 }, () => JSON.stringify(conversation(pick)));
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "text.txt"), `${text.join("\n")}\n`);
writeFileSync(join(folder, "chats.jsonl"), `${chats.join("\n")}\n`);
console.log(`${text.length} paragraphs and ${chats.length} conversations are in ${folder}`);
