# %% [markdown]
# # A network's logits
# A trained network, such as one of torchvision's, gives logits. Collect them for held-out images, once, with the network in evaluation mode:
#
# <!-- not run: it needs PyTorch and images -->
# ```python
# network.eval()
# with torch.inference_mode():
#     logits = torch.cat([network(images.to("cuda")).float().cpu() for images, _ in loader]).numpy()
# ```
#
# This example goes on with the logits of a network for Fashion-MNIST that come with the program: `ordercal demo --out .` writes the file.

# %%
import numpy as np
import ordercal

data = np.load("fashion_mnist.npz")
calib, calib_labels = data["calib_logits"], data["calib_labels"]
test, test_labels = data["test_logits"], data["test_labels"]
print(calib.shape, test.shape, data["class_names"][:3].tolist())

# %% [markdown]
# ## How far off is it?
# The interval says what the 5000 test rows can tell. It does not reach 0, so the network is miscalibrated beyond doubt.

# %%
before = ordercal.evaluate(test, test_labels, bootstrap=200)
low, high = before.interval["ece"]
print(f"accuracy {before['accuracy']:.4f}, NLL {before['nll']:.4f}, ECE {before['ece']:.4f} ({low:.4f} to {high:.4f})")

# %% [markdown]
# ## Calibrate
# `Auto` fits several methods and mixes them by what held-out rows say. The report has what it is made of.

# %%
calibrator = ordercal.Auto(effort="quick").fit(calib, calib_labels)
probs = calibrator.predict_proba(test)
after = ordercal.evaluate(probs, test_labels, kind="probs", bootstrap=200)
low, high = after.interval["ece"]
print(f"accuracy {after['accuracy']:.4f}, NLL {after['nll']:.4f}, ECE {after['ece']:.4f} ({low:.4f} to {high:.4f})")
print("predictions changed:", int((probs.argmax(axis=1) != test.argmax(axis=1)).sum()))

# %% [markdown]
# The interval reaches 0: these rows cannot tell the result from a calibrated classifier. There is nothing left to chase.
#
# ## Which mistakes does it make surely?
# With calibrated probabilities, a sure mistake is rare enough to be looked at one by one: often the label is wrong.

# %%
wrong = np.flatnonzero(probs.argmax(axis=1) != test_labels)
surest = wrong[np.argsort(-probs[wrong].max(axis=1))[:3]]
for row in surest:
    said, is_ = data["class_names"][probs[row].argmax()], data["class_names"][test_labels[row]]
    print(f"row {row}: {probs[row].max():.2f} for {said}, the label is {is_}")

# %% [markdown]
# ## Take it to production
# The file holds scores → probabilities; see [Deploying](../deploying.md) for how it joins the network's own file.

# %%
calibrator.to_onnx("calibrator.onnx")
calibrator.save("calibrator.safetensors")
