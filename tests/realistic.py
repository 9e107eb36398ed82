# ruff: noqa: E501, RUF001
"""Answers as models of 2026 write them, with labels assigned by hand: forms, languages, habits.

Every table has two halves, by parity of the place: `ruler_report.failures` and `exact` were written
with `half=0`; `half=1` was written at the same time and not looked at until they were finished.
"""

from collections.abc import Callable, Sequence

#: `{}` holds one value or a list as `LISTS` write it. All say the same and nothing else.
FRAMES = (
    "{}",
    "The answer is {}.",
    "**{}**",
    "I think it is {}, but please check.",
    "According to the text: {}",
    "Sure! Here is what I found: {}",
    "**Answer:** {}\n\n**Explanation:** This is stated word for word in the passage.",
    "Answer: {}",
    "$\\boxed{{{}}}$",
    'It says "{}".',
    "`{}`",
    "After reading the text, I would say {}",
    "<answer>{}</answer>",
    "Final Answer: \\[ \\boxed{{\\text{{{}}}}} \\]",
    "```\n{}\n```",
    '```json\n{{"answer": "{}"}}\n```',
    "### Answer\n\n{}\n\nLet me know if you need anything else!",
    '{{"result": "{}", "confidence": 0.97}}',
    "Die Antwort lautet: {}.",
    "La réponse est {}.",
    "答案是:{}。",
    "La respuesta es: {}",
    "Ответ: {}",
    "答えは「{}」です。",
    "الإجابة هي: {}",
    "정답: {}",
    "\u2705 {}",
    "> {}",
    "| Question | Answer |\n|---|---|\n| Value | {} |",
    "| | Result |\n|:--|--:|\n| 1 | **{}** |",
    "<think>\nLet me look for it. I see it near the middle.\n</think>\n\n{}",
    "<think>It is not at the start. Found.</think>\n**{}**",
    "Looking at the passage, I found it. The answer is **{}**. I hope this helps!",
    "Certainly! Based on the document you provided, the requested answer is: {}",
)
LISTS: Sequence[Callable[[list[str]], str]] = (
    lambda items: ", ".join(items),
    lambda items: "\n".join(f"{n}. {item}" for n, item in enumerate(items, 1)),
    lambda items: "\n".join(f"- {item}" for item in items),
    lambda items: " ".join(items),
    lambda items: " and ".join([", ".join(items[:-1]), items[-1]]) if items[1:] else items[0],
    lambda items: "\n".join(f"* **{item}**" for item in items),
    lambda items: "; ".join(f"{n}) {item}" for n, item in enumerate(items, 1)),
    lambda items: "[" + ", ".join(f"'{item}'" for item in items) + "]",
    lambda items: "```json\n[\n" + ",\n".join(f'  "{item}"' for item in items) + "\n]\n```",
    lambda items: '{"answers": [' + ", ".join(f'"{item}"' for item in items) + "]}",
    lambda items: "\n".join(["| # | Answer |", "|---|---|"]
                            + [f"| {n} | {item} |" for n, item in enumerate(items, 1)]),
    lambda items: "\n".join(["| Rank | Item | Note |", "|:-:|:--|:--|"]
                            + [f"| {n} | **{item}** | \u2014 |" for n, item in enumerate(items, 1)]),
    lambda items: "$$\\boxed{" + ", ".join(f"\\text{{{item}}}" for item in items) + "}$$",
    lambda items: "\\begin{itemize}\n" + "\n".join(f"\\item {item}" for item in items)
                  + "\n\\end{itemize}",
    lambda items: "```python\nresult = [" + ", ".join(f'"{item}"' for item in items) + "]\n```",
    lambda items: "```yaml\nanswers:\n" + "\n".join(f"  - {item}" for item in items) + "\n```",
    lambda items: "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>",
    lambda items: "Here are the answers:\n\n" + "\n".join(f"\u2022 {item}" for item in items)
                  + "\n\nLet me know if you would like me to check again!",
    lambda items: "Die Antworten sind " + " und ".join(
        [", ".join(items[:-1]), items[-1]] if items[1:] else items) + ".",
    lambda items: "Les réponses sont : " + ", ".join(items[:-1]) + " et " + items[-1] + ".",
    lambda items: "答案是:" + "、".join(items) + "。",
    lambda items: "次のとおりです。\n" + "\n".join(f"・{item}" for item in items),
    lambda items: "Las respuestas son: " + ", ".join(items[:-1]) + " y " + items[-1],
    lambda items: "Ответы:\n" + "\n".join(f"{n}) {item}" for n, item in enumerate(items, 1)),
)  # fmt: skip
#: Of words with their counts (cwe, fwe).
COUNTS: Sequence[Callable[[list[str]], str]] = (
    lambda items: "\n".join(f"{n}. {item} ({30 - n} times)" for n, item in enumerate(items, 1)),
    lambda items: ", ".join(f"{item}: {30 - n}" for n, item in enumerate(items)),
    lambda items: "\n".join(["| Word | Count |", "|---|---|"]
                            + [f"| {item} | {30 - n} |" for n, item in enumerate(items)]),
    lambda items: '{"words": [' + ", ".join(f'{{"word": "{item}", "count": {30 - n}}}'
                                            for n, item in enumerate(items)) + "]}",
    lambda items: "\n".join(f"- **{item}** \u2013 appears {30 - n} times"
                            for n, item in enumerate(items)),
    lambda items: "```json\n{" + ", ".join(f'"{item}": {30 - n}'
                                           for n, item in enumerate(items)) + "}\n```",
    lambda items: "\n".join(f"{n}. `{item}` \u2014 {30 - n}x" for n, item in enumerate(items, 1)),
    lambda items: "\n".join(f"{item} = {30 - n} Vorkommen" for n, item in enumerate(items)),
)  # fmt: skip
#: Right answers that upstream's substring misses: of a number, an identifier, words or names.
OTHER_FORMS: dict[str, Sequence[Callable[[str], str]]] = {
    "numbers": (
        lambda value: f"{int(value):,}",
        lambda value: f"{int(value):,}".replace(",", " "),
        lambda value: f"{int(value):,}".replace(",", "."),
        lambda value: f"{int(value):,}".replace(",", "\u202f"),
        lambda value: f"{int(value):,}".replace(",", "{,}"),
        lambda value: f"{int(value):,}".replace(",", "'"),
        lambda value: value.translate(
            dict(zip(map(ord, "0123456789"), map(chr, range(0x660, 0x66A)), strict=True))
        ),
        lambda value: value.translate(
            dict(zip(map(ord, "0123456789"), map(chr, range(0xFF10, 0xFF1A)), strict=True))
        ),
        lambda value: f"{int(value):,}".replace(",", "\\,"),
        lambda value: f"{value[:3]}-{value[3:]}",
    ),
    "uuids": (
        lambda value: value.replace("-", ""),
        lambda value: value.replace("-", " "),
        lambda value: value.replace("-", "\u2011"),
        lambda value: value.replace("-", "_"),
    ),
    "words": (
        lambda value: value.replace("-", " "),
        lambda value: value.replace("-", " ").title(),
        lambda value: value.replace("-", "_"),
        lambda value: value.replace("-", "\u2013"),
    ),
    "names": (
        lambda value: " ".join(value),
        lambda value: "-".join(value),
        lambda value: "".join(chr(ord(letter) + 0xFEE0) for letter in value),
        lambda value: ".".join(value),
    ),
}  # fmt: skip
REFUSALS = (
    "I couldn't find {it} in the text.",
    "The text does not mention {it}.",
    "There is not enough information to answer.",
    "There is no {one} like that in the passage.",
    "I don't know.",
    "I do not know {it}.",
    "The provided text doesn't contain {it}.",
    "It isn't mentioned anywhere in the documents.",
    "I was unable to locate {it}.",
    "No such {one} appears in the text.",
    "Based on the text, it is impossible to determine {it}.",
    "The passage says nothing about {it}.",
    "Unfortunately, {it} could not be found.",
    "This information is not available in the given context.",
    "The answer cannot be determined from the text.",
    "Not mentioned.",
    "I apologize, but I don't see {it} in what you sent.",
    "As a language model, I cannot recall {it}.",
    "You have not provided any text.",
    "Insufficient information.",
    "I failed to find {it}.",
    "{it}: not found.",
    "**Answer:** Not found in the provided text.",
    '```json\n{{"answer": null, "reason": "not mentioned in the text"}}\n```',
    '{{"answer": "not found"}}',
    "\\boxed{{\\text{{Not found}}}}",
    "I'm sorry, but after reading the text carefully I wasn't able to find {it}. If you can share "
    "the relevant part again, I'd be glad to look once more.",
    "Thank you for the text. I searched it from beginning to end, however, {it} does not seem to "
    "occur in it. Please check the text and ask me again.",
    "After a careful scan of the whole document, I did not come across {it}. The passage discusses "
    "other matters and never gives it.",
    "Unfortunately I can't help here: the text that I see ends before it gets to {it}, so I don't "
    "have what is needed to reply.",
    "| Question | Answer |\n|---|---|\n| {one} | not found |",
    "I don't have access to the document. Could you paste it here?",
    "None of the passages state this.",
    "It is not specified.",
)
BARE_REFUSALS = ("None.", "N/A", "Unknown.", "Not found", "Unanswerable", "not specified",
                 "Nothing.", "No answer", "No information.", "unknown", "n/a", "(none)", "null",
                 "None", "**None**", "\\boxed{None}", "Not stated.", "not given")  # fmt: skip
#: In other languages; the last of each half are languages that the other half does not have.
FOREIGN_REFUSALS = (
    "Ich konnte die Antwort im Text nicht finden.",
    "Der Text enthält keine Angaben dazu.",
    "Je n'ai pas trouvé cette information dans le texte.",
    "Le texte ne mentionne pas cette valeur.",
    "No encuentro esa información en el texto.",
    "El texto no menciona ese dato.",
    "A informação não está presente no texto.",
    "Não consegui encontrar a resposta no documento.",
    "Non ho trovato questa informazione nel testo.",
    "Il testo non contiene questo dato.",
    "De tekst bevat geen antwoord op deze vraag.",
    "Ik kan het niet vinden in de tekst.",
    "文中没有提到这个信息。",
    "我无法在文本中找到答案。",
    "文章中には記載がありません。",
    "テキストからは見つかりませんでした。",
    "본문에서 해당 정보를 찾을 수 없습니다.",
    "텍스트에 그런 내용은 없습니다.",
    "В тексте нет такой информации.",
    "Я не смог найти это в тексте.",
    "لم أجد هذه المعلومة في النص.",
    "لا يحتوي النص على إجابة.",
    "पाठ में यह जानकारी नहीं दी गई है।",
    "मुझे इसका उत्तर नहीं मिला।",
    "Metinde bu bilgi bulunmamaktadır.",
    "Bu bilgi metinde yer almıyor.",
    "W tekście nie ma takiej informacji.",
    "Nie udało mi się znaleźć odpowiedzi.",
    "Không tìm thấy thông tin này trong văn bản.",
    "Văn bản không đề cập đến điều này.",
    "Informasi tersebut tidak ada dalam teks.",
    "Saya tidak dapat menemukannya.",
    "Jag hittar inte det i texten.",
    "Teksten nævner ikke dette.",
    "Δεν βρήκα αυτή την πληροφορία στο κείμενο.",
    "Tekstissä ei mainita tätä.",
    "המידע לא מופיע בטקסט.",
    "V textu tato informace není uvedena.",
)  # fmt: skip
#: Chatter, plans and code, which name no answer.
NO_ANSWERS = (
    "Sure! I will read the text and answer your question.",
    "Let me look at this step by step.",
    "Okay, I have memorized it. What would you like to know?",
    "Of course. Please give me a moment to go through the text.",
    "This is a great question!",
    "To answer this question, we need to read the text carefully.",
    "I have read the text. Please ask your question.",
    "Thank you for sharing this text with me.",
    "Okay, let's tackle this. First I need to scan the whole passage for the relevant lines, keep "
    "every candidate, and then drop those that do not match. Let me start with the first",
    "## Plan\n1. Read the passage once.\n2. Collect every candidate.\n3. Ignore what is not asked.\n"
    "4. Report the result.",
    "I need to be careful here. The text is very long and has many similar sentences, so I should "
    "not mix them up. I will go through it paragraph by paragraph and",
    "**Step 1:** Understand what is asked.\n\n**Step 2:** Go through the passage.\n\n**Step 3:**",
    "```python\nimport re\n\ndef find(text):\n    found = re.findall(pattern, text)\n    if not "
    "found:\n        return None\n    return found[0]\n```",
    "```python\nfrom collections import Counter\n\nwords = text.split()\nprint(Counter(words)."
    "most_common())\n```",
    "def solve(text):\n    for line in text.splitlines():\n        if not line.strip():\n"
    "            continue\n        print(line)",
    "import re\nmatch = re.search(pattern, text)\nif match is None:\n    print('not found')\nelse:\n"
    "    print(match.group(1))",
    "Klar! Ich lese den Text und beantworte dann die Frage.",
    "Bien sûr ! Je vais lire le texte attentivement.",
    "好的,我会仔细阅读这段文字。",
    "Claro, voy a leer el texto con atención.",
    "User: What is it?\nAssistant: Let me check.\nUser: Okay.\nAssistant:",
    "Human: Thanks!\n\nAssistant: You're welcome! Is there anything else?",
    "Good question. Reading now...",
    "I'm ready! Please go ahead.",
)
SILENT = ("", "...", "**", "-", "\\boxed{}", "1.", '""', "```\n```", "____", "\u2026", "| | |\n|---|",
          "```json\n{}\n```", "\u3002", "<answer></answer>")  # fmt: skip
LOOPS = ("the the the the the the the the", "and and and and and and", "is is is is is is is",
         "of the of the of the of the")  # fmt: skip
#: Names that begin like words of refusals, and others; in no document.
INVENTIONS = ("Norway-on-Sea", "the Ottoverian League", "Normandale", "47.03 furlongs",
              "November 31, 2187", "Port Mumbleton", "Noland", "31 Febtober 2187", "Nobelheim",
              "Lake Trombulon", "Notre-Dame-du-Ploxwick", "Zanzibar Quillfeather", "Nonesuch Hill",
              "Baron Ploxwick", "Nottersham", "Noah Wexbert", "Unknownville",
              "Nothingham Brumm")  # fmt: skip
LONG_INVENTIONS = (
    "The answer is Zanzibar Quillfeather, who is said to have done so in the year 2187 after a "
    "long quarrel with the Ottoverian League.",
    "It was Baron Ploxwick of Port Mumbleton who first proposed it, and the Snorvell Accord was "
    "signed there two years later.",
    "Zanzibar Quillfeather\n\nThis is known from the letters of Baron Ploxwick.",
    "Lake Trombulon.\nExplanation: the lake gave its name to the whole region in 2187.",
    "Based on the documents, the correct answer would be Quetzalia Brumm, since she is the only "
    "person who ever lived in Port Mumbleton.",
    "In my opinion this refers to Dr. Wexbert Oonagh, a Trombulonian painter.",
    "It was not the king but Baron Ploxwick who gave the order.",
    "There was no war; Zanzibar Quillfeather signed the Snorvell Accord without a fight.",
    "Die Antwort lautet Baron Ploxwick.",
    "La réponse est Port Mumbleton.",
    "\\boxed{\\text{Quetzalia Brumm}}",
    '```json\n{"answer": "Quetzalia Brumm"}\n```',
    "because of an embargo on pickled turnips",
    "a purple submarine with nine velvet oars",
)
