import json, collections, threading
d = {str(i): {"a": [i, str(i) * 3], "b": set("word%d" % (i * 7 % 13) for i in range(20))} for i in range(300)}
s = {frozenset(v["b"]) for v in d.values()}
t = json.dumps({k: v["a"] for k, v in d.items()})
for _ in range(5): json.loads(t)
