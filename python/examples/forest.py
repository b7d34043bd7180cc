# %% [markdown]
# # A forest
# A forest votes. With 50 trees it cannot say less than 1 in 50, except 0, and its votes are too cautious: trees disagree more often than
# the forest is wrong.

# %%
import numpy as np
import ordercal
from ordercal.sklearn import CalibratedClassifier
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
forest = RandomForestClassifier(n_estimators=50, random_state=0).fit(X, y)
votes = forest.predict_proba(X_test)
found = ordercal.evaluate(votes, y_test, kind="probs")
print(f"accuracy {found['accuracy']:.3f}, mean confidence {votes.max(axis=1).mean():.3f}, NLL {found['nll']:.3f}")

# %% [markdown]
# ## Calibrate without a calibration set
# `CalibratedClassifier` scores every training row with a forest that has not seen it, learns the calibration from those scores, and trains one forest
# on all rows.

# %%
for method in ["ts", "auto"]:
    calibrated = CalibratedClassifier(RandomForestClassifier(n_estimators=50, random_state=0), method=method, cv=5).fit(X, y)
    probs = calibrated.predict_proba(X_test)
    found = ordercal.evaluate(probs, y_test, kind="probs")
    changed = int((calibrated.predict(X_test) != forest.predict(X_test)).sum())
    print(f"{method:5} accuracy {found['accuracy']:.3f}, mean confidence {probs.max(axis=1).mean():.3f}, NLL {found['nll']:.3f}, changed {changed}")

# %% [markdown]
# Confidence now is about as high as accuracy, and no prediction changed.
#
# ## How much of the loss was miscalibration?
# `decompose` splits the NLL into what a better calibration could save and what it cannot.

# %%
parts = ordercal.decompose(votes, y_test, kind="probs")
print(f"NLL {parts.nll:.3f} = calibration {parts.nll_calibration:.3f} + refinement {parts.nll_refinement:.3f}")
