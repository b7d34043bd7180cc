# %% [markdown]
# # A comparison as in a paper
# Several datasets, several methods, one of them your own: values, ranks, average relative errors, and what chance explains.

# %%
import numpy as np
import ordercal

sets = {}
for name in ["fashion_mnist", "letters"]:
    file = np.load(f"{name}.npz")
    sets[name] = (file["calib_logits"], file["calib_labels"], file["test_logits"], file["test_labels"])


class Smoothed:
    """A baseline: mixes the softmax with the uniform distribution, by how often the calibration rows are wrong."""

    def fit(self, scores, labels):
        self.share_ = (scores.argmax(axis=1) != labels).mean()
        return self

    def predict_proba(self, scores):
        exps = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (1 - self.share_) * exps / exps.sum(axis=1, keepdims=True) + self.share_ / scores.shape[1]


methods = ["ts", "diag", "oi", "svs", ("smoothed", Smoothed()), ("smoothed+order", ordercal.KeepOrder(Smoothed()))]
found = ordercal.compare(sets, methods, metrics=["nll", "ece", "accuracy"], bootstrap=200)
print(found)

# %% [markdown]
# Stars mark what a paired bootstrap cannot tell from the best: on these data most of the methods with a star are equally good, and a table
# without stars would have invited a story about ranks.
#
# ## As a data frame
# For plots and tables of your own:

# %%
frame = found.to_pandas()
print(frame[frame.metric == "nll"].pivot(index="method", columns="dataset", values="value").round(4))
