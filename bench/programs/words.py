# What a script does: text, dictionaries, objects, JSON, sorting. The
# argument is the number of lines.
import json
import re
import sys
from collections import Counter, defaultdict


class Entry:
    def __init__(self, word, place):
        self.word = word
        self.places = [place]

    def seen(self, place):
        self.places.append(place)


def text(lines):
    seed = 7
    for number in range(lines):
        words = []
        for _ in range(12):
            seed = (seed * 1103515245 + 12345) % 2147483648
            words.append("word%d" % (seed % 5000))
        yield "%d: %s." % (number, " ".join(words))


def main():
    entries = {}
    pairs = Counter()
    by_length = defaultdict(set)
    for line in text(int(sys.argv[1])):
        number, rest = line.split(": ", 1)
        before = None
        for word in re.findall(r"[a-z]+[0-9]+", rest):
            if word in entries:
                entries[word].seen(int(number))
            else:
                entries[word] = Entry(word, int(number))
            if before:
                pairs[before, word] += 1
            by_length[len(word)].add(word)
            before = word
    document = json.dumps([{"word": e.word, "places": e.places} for e in entries.values()])
    again = {item["word"]: item for item in json.loads(document)}
    ordered = sorted(again, key=lambda word: (-len(again[word]["places"]), word))
    print(len(document), ordered[:3], pairs.most_common(2), sorted(map(len, by_length.values())))


main()
