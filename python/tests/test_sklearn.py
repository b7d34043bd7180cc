"""scikit-learn's own checks, and what they do not look at."""

from __future__ import annotations

from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split
from ordercal.sklearn import CalibratedClassifier, ScoreCalibrator
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

#: The default's way through the code in a fraction of its time.
QUICK = ordercal.Auto(folds=2, chains=False, polish=False)

#: As they come, where `auto` often leaves the scores alone, and with methods that never do.
ESTIMATORS = [
    ScoreCalibrator(),
    CalibratedClassifier(),
    ScoreCalibrator("ts"),
    CalibratedClassifier(LogisticRegression(), "ts"),
    CalibratedClassifier(method="oi"),
]


def test_auto_is_the_default(digits: list[Any]) -> None:
    train, _, y_train, _ = digits
    assert CalibratedClassifier().method == ScoreCalibrator().method == "auto"
    weights = np.arange(len(y_train)) % 3
    rows = np.repeat(np.arange(len(y_train)), weights)
    scores = train[:, :10] / 4
    weighted = ScoreCalibrator(QUICK).fit(scores, y_train, weights).transform(scores)
    repeated = ScoreCalibrator(QUICK).fit(scores[rows], y_train[rows]).transform(scores)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> list[Any]:
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.mark.parametrize(
    "inner",
    [
        LinearSVC(),
        SVC(decision_function_shape="ovr"),
        SVC(decision_function_shape="ovo"),
        GaussianNB(),
        RandomForestClassifier(50, random_state=0),
        make_pipeline(LogisticRegression(max_iter=200)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_predictions_stay(inner: Any, digits: list[Any]) -> None:
    train, test, y_train, y_test = digits
    if getattr(inner, "decision_function_shape", "") == "ovo":
        with pytest.raises(ordercal.OrdercalError, match="neither a decision_function with a column per class"):
            CalibratedClassifier(inner, "ts").fit(train, y_train)
        return
    both = CalibratedClassifier(inner, "ts").fit(train, y_train)
    scores = both.estimator_
    raw = scores.decision_function(test) if hasattr(scores, "decision_function") else scores.predict_proba(test)
    assert np.array_equal(both.predict(test), both.classes_[raw.argmax(axis=1)])
    probs = both.predict_proba(test)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(both.predict_log_proba(test)), probs, atol=1e-12)


def test_names_two_classes_and_prefit(digits: list[Any]) -> None:
    train, test, y_train, y_test = digits
    names = np.where(y_train > 4, "large", "small")
    both = CalibratedClassifier(RidgeClassifier(), "ts").fit(train, names)
    assert both.classes_.tolist() == ["large", "small"]
    assert set(both.predict(test)) == {"large", "small"}

    inner = GaussianNB().fit(train[:500], y_train[:500])
    prefit = CalibratedClassifier(inner, "ts", cv="prefit").fit(train[500:], y_train[500:])
    assert prefit.estimator_ is inner
    assert log_loss(y_test, prefit.predict_proba(test)) < log_loss(y_test, inner.predict_proba(test))
    with pytest.raises(ordercal.OrdercalError, match="not one of the classifier's classes"):
        CalibratedClassifier(inner, "ts", cv="prefit").fit(train, y_train + 1)


def test_folds_and_settings(digits: list[Any]) -> None:
    train, _, y_train, _ = digits
    inner = GaussianNB()
    own = CalibratedClassifier(inner, "ts").fit(train, y_train)
    order = np.random.default_rng(0).permutation(len(y_train))
    shuffled = CalibratedClassifier(inner, "ts").fit(train[order], y_train[order])
    beta = own.calibrator_.parameters_["beta"]
    assert shuffled.calibrator_.parameters_["beta"] == pytest.approx(beta, rel=1e-6)
    other = CalibratedClassifier(inner, "ts", cv=StratifiedKFold(3)).fit(train, y_train)
    assert other.calibrator_.parameters_["beta"] == pytest.approx(beta, rel=0.2)
    settings = CalibratedClassifier(inner, ordercal.Diagonal(hidden=(4,)), cv=2).fit(train, y_train)
    assert settings.calibrator_.get_params()["hidden"] == (4,)
    assert cross_val_score(CalibratedClassifier(inner, "ts"), train, y_train, cv=3).mean() > 0.7
    with pytest.raises(ordercal.OrdercalError, match="at least 2 folds"):
        CalibratedClassifier(inner, cv=1).fit(train, y_train)
    with pytest.raises(ordercal.OrdercalError, match="takes no sample weights"):
        from sklearn.neighbors import KNeighborsClassifier

        CalibratedClassifier(KNeighborsClassifier(), "ts").fit(train, y_train, np.ones(len(y_train)))


def test_a_rare_class_does_not_end_it(digits: list[Any]) -> None:
    train, _, y_train, _ = digits
    labels = y_train.copy()
    labels[:1] = 99
    both = CalibratedClassifier(LogisticRegression(max_iter=200), "ts").fit(train, labels)
    assert both.predict_proba(train).shape == (len(train), 11)


def test_transformer(calib: Split, test: Split) -> None:
    est = ScoreCalibrator("ts").fit(calib.scores, calib.labels)
    plain = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    np.testing.assert_allclose(est.transform(test.scores), plain.predict_proba(test.scores), atol=1e-6)
    with pytest.warns(UserWarning, match="rows have labels that are not among the 5 columns"):
        ScoreCalibrator("ts").fit(calib.scores, np.append(calib.labels[1:], 7))
    frame = __import__("pandas").DataFrame(calib.scores, columns=list("abcde"))
    named = ScoreCalibrator("ts").set_output(transform="pandas").fit(frame, calib.labels)
    assert list(named.transform(frame).columns) == list("abcde")


def test_ensembles(digits: list[Any]) -> None:
    train, test, y_train, y_test = digits
    inner = DecisionTreeClassifier(max_depth=8, random_state=0)
    one = CalibratedClassifier(inner, "ts").fit(train, y_train)
    many = CalibratedClassifier(inner, "ts", ensemble=True).fit(train, y_train)
    assert len(one.estimators_) == 1 and len(many.estimators_) == 5
    assert log_loss(y_test, many.predict_proba(test)) < log_loss(y_test, one.predict_proba(test))
    np.testing.assert_allclose(many.predict_proba(test).sum(axis=1), 1.0)
    with pytest.raises(ordercal.OrdercalError, match="no ensemble"):
        CalibratedClassifier(one.estimator_, cv="prefit", ensemble=True).fit(train, y_train)
