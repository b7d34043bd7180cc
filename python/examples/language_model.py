# %% [markdown]
# # A language model's multiple-choice run
# The scores here are made up, so that the truth is known: a model that answers questions with options A to D, is too sure, and likes A. Yours are
# the log-probabilities of the four option tokens.

# %%
import numpy as np
import ordercal

rng = np.random.default_rng(7)
rows = 2000
evidence = 2.5 * rng.normal(size=(rows, 4))
chances = np.exp(evidence) / np.exp(evidence).sum(axis=1, keepdims=True)
answers = (chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=3)
scores = 2.0 * evidence + np.array([6.0, 1.0, 0.0, -1.0])
dev, test = slice(0, 1000), slice(1000, rows)
print("how often each option is predicted:", (np.bincount(scores.argmax(axis=1)) / rows).round(2).tolist())
print("how often it is the answer:        ", (np.bincount(answers) / rows).round(2).tolist())

# %% [markdown]
# ## Keep the answers, repair the confidence
# `Auto` keeps every answer. Its report says what that costs: removing the preference for A would change answers, so with every answer kept
# it stays.

# %%
kept = ordercal.Auto(effort="quick").fit(scores[dev], answers[dev])
free = ordercal.AutoFree(effort="quick").fit(scores[dev], answers[dev])
for name, probs in [("as it is", None), ("kept", kept.predict_proba(scores[test])), ("free", free.predict_proba(scores[test]))]:
    found = ordercal.evaluate(scores[test], answers[test]) if probs is None else ordercal.evaluate(probs, answers[test], kind="probs")
    print(f"{name:9} accuracy {found['accuracy']:.3f}, NLL {found['nll']:.3f}, ECE {found['ece']:.3f}")
print(f"price of order: {kept.report_.price_of_order:.3f}, in units of the NLL")

# %% [markdown]
# ## When to ask a human
# Of the answers above the threshold at most one in five is wrong, with 95 % certainty. Half of the test questions find it, the other half checks it.

# %%
probs = free.predict_proba(scores[test])
found = ordercal.threshold(probs[:500], answers[test][:500], max_error=0.2, kind="probs")
taken = probs[500:].max(axis=1) >= found.threshold
right = (probs[500:].argmax(axis=1) == answers[test][500:])[taken]
print(f"answer alone above {found.threshold:.2f}: {taken.mean():.0%} of the questions, {right.mean():.0%} of them right")
