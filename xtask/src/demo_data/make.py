"""Trains the two demo classifiers and writes their held-out logits and labels.

Usage: make.py OUT_DIR LETTERS_CSV

`cargo xtask demo-data` installs what this needs (Debian's python3-torch, dataset-fashion-mnist and
r-cran-mlbench), exports the letters as CSV and calls this script. Both networks are trained well past the
point where the training loss is nearly zero, with no early stopping and no regularisation: the usual way to
get a network that predicts well and is too sure of itself. Seeds are fixed and one thread is used, so that
the same packages on the same processor give the same bytes.
"""

import csv
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
FASHION_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip


def idx(name, header):
    """The bytes of a gzipped IDX file after its header."""
    with gzip.open(FASHION / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def fashion():
    """15,000 of the training images; the 10,000 test images in halves for calibration and test."""
    images = idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = idx("train-labels-idx1-ubyte.gz", 8)
    held_images = idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    held_labels = idx("t10k-labels-idx1-ubyte.gz", 8)
    chosen = np.random.default_rng(1).permutation(len(labels))[:15_000]
    order = np.random.default_rng(2).permutation(len(held_labels))
    scale = lambda x: (x.astype(np.float32) / 255 - 0.286) / 0.353
    calib, test = order[:5000], order[5000:]
    return (
        (scale(images[chosen]), labels[chosen]),
        (scale(held_images[calib]), held_labels[calib]),
        (scale(held_images[test]), held_labels[test]),
    )


def fashion_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def letters(path):
    """10,000 rows to train on, 5,000 for calibration, 5,000 for test."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    names = sorted({row[0] for row in rows})
    labels = np.array([names.index(row[0]) for row in rows], np.uint8)
    values = np.array([row[1:] for row in rows], np.float32)
    order = np.random.default_rng(3).permutation(len(rows))
    train, calib, test = order[:10_000], order[10_000:15_000], order[15_000:]
    mean, spread = values[train].mean(0), values[train].std(0)
    values = (values - mean) / spread
    return names, *((values[part], labels[part]) for part in (train, calib, test))


def letters_network():
    return nn.Sequential(
        nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 26)
    )  # fmt: skip


def train(network, images, labels, epochs, batch, rate):
    """Adam with a step size that falls to zero along a cosine; returns the last training loss."""
    images = torch.from_numpy(np.ascontiguousarray(images))
    labels = torch.from_numpy(labels.astype(np.int64))
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    start = time.time()
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(labels)).split(batch):
            loss = nn.functional.cross_entropy(network(images[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows)
        schedule.step()
        if (epoch + 1) % max(1, epochs // 8) == 0:
            print(f"  epoch {epoch + 1}: loss {total / len(labels):.5f}, {time.time() - start:.0f} s", flush=True)
    return total / len(labels)


def logits_of(network, images):
    with torch.no_grad():
        return network(torch.from_numpy(np.ascontiguousarray(images))).numpy()


def report(name, logits, labels):
    """Accuracy, NLL and the 15-bin ECE, in one line that the README quotes."""
    logits = logits.astype(np.float64)
    log_probs = logits - logits.max(1, keepdims=True)
    log_probs -= np.log(np.exp(log_probs).sum(1, keepdims=True))
    conf, hit = np.exp(log_probs.max(1)), log_probs.argmax(1) == labels
    bins = np.clip(np.ceil(conf * 15).astype(int) - 1, 0, 14)
    ece = sum(abs((hit[bins == b] - conf[bins == b]).sum()) for b in range(15)) / len(labels)
    nll = -log_probs[np.arange(len(labels)), labels].mean()
    print(f"{name}: accuracy {hit.mean():.4f}, NLL {nll:.4f}, ECE {ece:.4f}, mean confidence {conf.mean():.4f}")


def write(out, name, network, calib, test, names):
    arrays = {"class_names": np.array(names)}
    for split, (images, labels) in (("calib", calib), ("test", test)):
        arrays[f"{split}_logits"] = logits_of(network, images)
        arrays[f"{split}_labels"] = labels
        report(f"{name} {split}", arrays[f"{split}_logits"], labels)
    path = out / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path.name}: {path.stat().st_size} bytes", flush=True)


def main():
    out, letters_csv = pathlib.Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    torch.manual_seed(1357)
    names, fit, calib, test = letters(letters_csv)
    network = letters_network()
    loss = train(network, *fit, epochs=300, batch=128, rate=3e-3)
    print(f"letters: training loss {loss:.6f}")
    write(out, "letters", network, calib, test, names)

    torch.manual_seed(1357)
    fit, calib, test = fashion()
    network = fashion_network()
    loss = train(network, *fit, epochs=40, batch=100, rate=2e-3)
    print(f"fashion_mnist: training loss {loss:.6f}")
    write(out, "fashion_mnist", network, calib, test, FASHION_CLASSES)


if __name__ == "__main__":
    main()
