# %% [markdown]
# # A drift story
# A classifier is calibrated in January. Then the world changes, first harmlessly and then not. What does one see, and when?

# %%
import numpy as np
import ordercal

rng = np.random.default_rng(3)


def month(rows, strength, prior):
    """Logits and labels: `strength` is how much the scores are worth, `prior` how frequent each class is."""
    wanted = rng.choice(3, size=rows, p=prior)
    logits = rng.normal(size=(rows, 3)) + strength * np.eye(3)[wanted]
    return (3 * logits).astype(np.float32), wanted


logits, labels = month(3000, 2.0, [0.5, 0.3, 0.2])
calibrator = ordercal.TemperatureScaling().fit(logits, labels)
limit = 0.04

# %% [markdown]
# ## Month by month
# Confidence can be watched without labels, the error only with them. A `MetricState` is a few kilobytes; one per day or per machine is added up at
# the end of the month.

# %%
story = [
    ("January", 2.0, [0.5, 0.3, 0.2]),
    ("February", 2.0, [0.5, 0.3, 0.2]),
    ("March", 2.0, [0.3, 0.4, 0.3]),  # other customers: the classes are more even
    ("April", 1.3, [0.3, 0.4, 0.3]),  # a new camera: the scores are worth less
]
for name, strength, prior in story:
    days = []
    for _ in range(20):
        scores, truth = month(100, strength, prior)
        day = ordercal.MetricState(3)
        day.update(calibrator.predict_proba(scores), truth, kind="probs")
        days.append(day)
    total = sum(days)
    low, high = total.interval(resamples=100)["ece"]
    found = total.finalize()
    alarm = "  <- fit again" if low > limit else ""
    print(f"{name:9} accuracy {found['accuracy']:.3f}, ECE {found['ece']:.3f} ({low:.3f} to {high:.3f}){alarm}")

# %% [markdown]
# March changes which classes occur, and hardly hurts. April changes what a score is worth: accuracy falls, and the confidence of January is too high.
# The alarm asks whether the *whole interval* is above the limit, so that chance does not ring it.
#
# ## Fit again
# A few hundred labelled rows of April are enough for a temperature.

# %%
fresh = month(500, 1.3, [0.3, 0.4, 0.3])
again = ordercal.TemperatureScaling().fit(*fresh)
scores, truth = month(2000, 1.3, [0.3, 0.4, 0.3])
for name, model in [("January's", calibrator), ("April's", again)]:
    found = ordercal.evaluate(model.predict_proba(scores), truth, kind="probs")
    print(f"{name:10} NLL {found['nll']:.3f}, ECE {found['ece']:.3f}")
