"""Makes chat-masks.json: conversations as transformers encodes them, with the tokens that an assistant said.

For each of four chat templates (in the manner of ChatML, Llama 3 and Mistral, with a tokenizer of tokenizers/, and one whose answers
begin and end within a token) the ids of apply_chat_template and its mask of assistant tokens, which comes from the template's
{% generation %} blocks.

    python3 make_chat.py     # needs transformers 5
"""
import json
from pathlib import Path

from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
TEMPLATES = {
    "chatml": (
        "qwen",
        {"eos_token": "<|im_end|>"},
        """{%- for m in messages %}
    {{- "<|im_start|>" + m.role + "\\n" }}
    {%- if m.role == "assistant" %}
    {% generation %}
        {{- m.content + "<|im_end|>" }}
    {%- endgeneration %}
    {%- else %}
        {{- m.content + "<|im_end|>" }}
    {%- endif %}
    {{- "\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
{%- endif %}""",
    ),
    "headers": (
        "llama3",
        {"bos_token": "<|endoftext|>"},
        """{{ bos_token }}{% for m in messages %}{{ "<|start_header_id|>" + m.role + "<|end_header_id|>\\n\\n" }}{% if m.role == "assistant" %}
{% generation %}{{ m.content | trim + "<|eot_id|>" }}{% endgeneration %}{% else %}{{ m.content | trim + "<|eot_id|>" }}{% endif %}
{% endfor %}{% if add_generation_prompt %}{{ "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{% endif %}""",
    ),
    "turns": (
        "llama2",
        {"bos_token": "<s>", "eos_token": "</s>"},
        """{{ bos_token }}{% for m in messages %}{% if m.role == "assistant" %}
{% generation %}{{ " " + m.content + eos_token }}{% endgeneration %}{% else %}{{ "[INST] " + m.content + " [/INST]" }}{% endif %}
{% endfor %}""",
    ),
    "within": (
        "gpt2",
        {},
        """{% for m in messages %}{% if m.role == "assistant" %}{% generation %}{{ m.content }}{% endgeneration %}
{{ "n, " }}{% else %}{{ m.content + " th" }}{% endif %}{% endfor %}""",
    ),
}


def turns(*texts):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


CONVERSATIONS = [
    turns("Where is Delhi?", "In India."),
    turns("भारत की राजधानी?", "नई दिल्ली", "Thanks", "!"),
    turns("Write a list.", "\n- one\n- two\n\n", "More", "  three", "And?", "that is all 123456"),
    [{"role": "system", "content": "Be brief."}, *turns("hi", "hello there, how are you", "bye")],
    turns("ends with a question", "answer", "and another question"),
    turns("an emoji", "\U0001f600 ok <b>bold</b>"),
]

# "the" and "in" are one token each.
WITHIN = [turns("say", "e i"), turns("say", "e sea is i", "more", "e i")]


def main():
    made = {}
    for name, (file, special, template) in TEMPLATES.items():
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers" / f"{file}.json"), **special)
        tokenizer.chat_template = template
        rows = []
        conversations = WITHIN if name == "within" else CONVERSATIONS
        for conversation in conversations:
            out = tokenizer.apply_chat_template(conversation, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            rows.append({"ids": out["input_ids"], "mask": "".join(map(str, out["assistant_masks"]))})
        made[name] = {"tokenizer": file, "settings": {**special, "chat_template": template}, "conversations": conversations, "rows": rows}
    (HERE / "chat-masks.json").write_text(json.dumps(made))
    print({name: sum("1" in row["mask"] for row in t["rows"]) for name, t in made.items()})


if __name__ == "__main__":
    main()
