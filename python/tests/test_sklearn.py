"""scikit-learn's own checks, and what they do not look at."""

from __future__ import annotations

import pickle
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
    both = CalibratedClassifier(inner, "ts").fit(train, y_train)
    scores = both.estimator_
    if getattr(inner, "decision_function_shape", "") == "ovo":
        # Votes of pairs are what this one counts; its own predictions break their ties otherwise.
        assert np.mean(both.predict(test) == scores.predict(test)) > 0.99
        scores.set_params(decision_function_shape="ovr")
    raw = scores.decision_function(test) if hasattr(scores, "decision_function") else scores.predict_proba(test)
    if isinstance(inner, SVC):
        scores.set_params(decision_function_shape=inner.decision_function_shape)
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
    found = own.calibrator_.temperature_
    assert shuffled.calibrator_.temperature_ == pytest.approx(found, rel=1e-6)
    other = CalibratedClassifier(inner, "ts", cv=StratifiedKFold(3)).fit(train, y_train)
    assert other.calibrator_.temperature_ == pytest.approx(found, rel=0.2)
    settings = CalibratedClassifier(inner, ordercal.Diagonal(hidden=(4,)), cv=2).fit(train, y_train)
    assert settings.calibrator_.get_params()["hidden"] == (4,)
    assert cross_val_score(CalibratedClassifier(inner, "ts"), train, y_train, cv=3).mean() > 0.7
    with pytest.raises(ordercal.OrdercalError, match="at least 2 folds"):
        CalibratedClassifier(inner, cv=1).fit(train, y_train)


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


def test_labels_as_floats_are_column_numbers(calib: Split, test: Split) -> None:
    some = calib.labels != 2
    floats = ScoreCalibrator("vs").fit(calib.scores[some], calib.labels[some].astype(float))
    numbers = ScoreCalibrator("vs").fit(calib.scores[some], calib.labels[some])
    np.testing.assert_array_equal(floats.transform(test.scores), numbers.transform(test.scores))


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


def test_pairs_of_classes_are_no_classes() -> None:
    # Three classes have three pairs: the columns look like scores of classes.
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    noisy = X + np.random.default_rng(0).normal(size=X.shape) * 0.5
    for inner in (SVC(decision_function_shape="ovo"), make_pipeline(SVC(decision_function_shape="ovo"))):
        both = CalibratedClassifier(inner, "ts").fit(noisy, y)
        assert both.score(noisy, y) >= both.estimator_.score(noisy, y) - 0.02


class Contrary(LogisticRegression):  # type: ignore[misc]
    """Scores that say the opposite of its predictions, and probabilities that do not."""

    def decision_function(self, X: Any) -> Any:
        return -super().decision_function(X)

    def predict(self, X: Any) -> Any:
        return self.classes_[super().decision_function(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        values = np.exp(super().decision_function(X))
        return values / values.sum(axis=1, keepdims=True)


class Hopeless(Contrary):
    """Neither says what it predicts."""

    def predict_proba(self, X: Any) -> Any:
        return np.roll(super().predict_proba(X), 1, axis=1)


def test_scores_that_do_not_predict(digits: list[Any]) -> None:
    train, test, y_train, y_test = digits
    both = CalibratedClassifier(Contrary(max_iter=200), "ts").fit(train, y_train)
    assert np.array_equal(both.predict(test), both.estimator_.predict(test))
    with pytest.raises(ordercal.OrdercalError, match="Hopeless: the largest of its decision_function is its prediction"):
        CalibratedClassifier(Hopeless(max_iter=200), "ts").fit(train, y_train)


def test_rows_that_no_fold_tests(digits: list[Any]) -> None:
    from sklearn.model_selection import PredefinedSplit, ShuffleSplit

    train, _, y_train, _ = digits
    fold = np.where(np.arange(len(y_train)) < 300, 0, -1)
    some = CalibratedClassifier(GaussianNB(), "ts", cv=PredefinedSplit(fold)).fit(train, y_train)
    inner = GaussianNB().fit(train[300:], y_train[300:])
    by_hand = CalibratedClassifier(inner, "ts", cv="prefit").fit(train[:300], y_train[:300])
    assert some.calibrator_.temperature_ == pytest.approx(by_hand.calibrator_.temperature_, rel=1e-3)
    CalibratedClassifier(GaussianNB(), "ts", cv=ShuffleSplit(2, random_state=0)).fit(train, y_train)


def test_frozen_estimators(digits: list[Any]) -> None:
    frozen = pytest.importorskip("sklearn.frozen")
    train, test, y_train, _ = digits
    inner = GaussianNB().fit(train[:500], y_train[:500])
    as_frozen = CalibratedClassifier(frozen.FrozenEstimator(inner), "ts").fit(train[500:], y_train[500:])
    as_prefit = CalibratedClassifier(inner, "ts", cv="prefit").fit(train[500:], y_train[500:])
    np.testing.assert_allclose(as_frozen.predict_proba(test), as_prefit.predict_proba(test), rtol=1e-6)
    assert "FrozenEstimator" in (CalibratedClassifier.__doc__ or "")


def test_methods_are_checked_first(digits: list[Any]) -> None:
    train, _, y_train, _ = digits

    class Never(GaussianNB):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise AssertionError("fitted before the method was looked at")

    for wrong in ("sigmoyd", "ts+order", None, 5):
        with pytest.raises(ordercal.OrdercalError):
            CalibratedClassifier(Never(), wrong).fit(train, y_train)  # type: ignore[arg-type]
    for alias, key in (("sigmoid", "platt"), ("isotonic", "isotonic"), ("temperature", "ts")):
        both = CalibratedClassifier(GaussianNB(), alias).fit(train, y_train)
        assert both.calibrator_._key == key
        assert ScoreCalibrator(alias).fit(train[:, 2:12], y_train).calibrator_._key == key


def test_weights_that_the_classifier_does_not_take(digits: list[Any]) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    train, _, y_train, _ = digits
    weights = np.where(np.arange(len(y_train)) % 2, 1.0, 0.1)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample weights"):
        weighted = CalibratedClassifier(KNeighborsClassifier(), "ts").fit(train, y_train, weights)
    plain = CalibratedClassifier(KNeighborsClassifier(), "ts").fit(train, y_train)
    assert weighted.calibrator_.temperature_ != plain.calibrator_.temperature_


def test_groups_and_routing(digits: list[Any]) -> None:
    import sklearn
    from sklearn.model_selection import GroupKFold

    train, _, y_train, _ = digits
    groups = np.arange(len(y_train)) // 20
    plain = CalibratedClassifier(GaussianNB(), "ts", cv=GroupKFold(3)).fit(train, y_train, groups=groups)
    with pytest.raises(ordercal.OrdercalError, match="knows no groups"):
        CalibratedClassifier(GaussianNB(), "ts").fit(train, y_train, groups=groups)
    weights = np.linspace(0.5, 1.5, len(y_train))
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        routed = CalibratedClassifier(inner, "ts", cv=GroupKFold(3))
        found = routed.fit(train, y_train, groups=groups)
        assert found.calibrator_.temperature_ == pytest.approx(plain.calibrator_.temperature_)
        weighted = routed.fit(train, y_train, weights, groups=groups).calibrator_.temperature_
        router = routed.get_metadata_routing()
        assert "estimator" in str(router) and "splitter" in str(router)
    unrouted = CalibratedClassifier(GaussianNB(), "ts", cv=GroupKFold(3)).fit(train, y_train, weights, groups=groups)
    assert weighted == pytest.approx(unrouted.calibrator_.temperature_)
    assert abs(weighted - plain.calibrator_.temperature_) > 1e-3


def test_jobs_change_nothing(digits: list[Any]) -> None:
    train, test, y_train, _ = digits
    for ensemble in (False, True):
        one = CalibratedClassifier(GaussianNB(), "ts", ensemble=ensemble).fit(train, y_train)
        two = CalibratedClassifier(GaussianNB(), "ts", ensemble=ensemble, n_jobs=2).fit(train, y_train)
        np.testing.assert_array_equal(one.predict_proba(test), two.predict_proba(test))


def test_several_labels_per_row_are_refused(digits: list[Any]) -> None:
    train, _, y_train, _ = digits
    many = np.column_stack([y_train > 4, y_train % 2 == 0]).astype(int)
    for estimator in (CalibratedClassifier(GaussianNB(), "ts"), ScoreCalibrator("ts")):
        with pytest.raises(ValueError, match=r"several labels per row|1d array"):
            estimator.fit(train, many)
    with pytest.raises(ordercal.OrdercalError, match="several labels per row"):
        CalibratedClassifier(GaussianNB(), "ts").fit(train, many)


def test_searches_pipelines_and_pictures(digits: list[Any]) -> None:
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import estimator_html_repr

    train, test, y_train, y_test = digits
    grid = {"method": ["ts", "temperature", "vs"], "estimator__var_smoothing": [1e-9, 1e-3]}
    search = GridSearchCV(CalibratedClassifier(GaussianNB(), cv=2), grid, scoring="neg_log_loss", cv=2)
    search.fit(train, y_train)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), "ts"))
    assert pipeline.fit(train, y_train).predict_proba(test).shape == (len(test), 10)
    for estimator in (
        pipeline,
        CalibratedClassifier(GaussianNB(), ordercal.Diagonal(hidden=(4,))),
        ScoreCalibrator(ordercal.Auto()),
    ):
        assert type(estimator).__name__ in estimator_html_repr(estimator)
    nested = CalibratedClassifier(GaussianNB(), ordercal.TemperatureScaling())
    assert nested.get_params()["estimator__var_smoothing"] == 1e-9
    frame = ScoreCalibrator("ts").set_output(transform="pandas").fit(train[:, 2:12], y_train).transform(test[:, 2:12])
    assert type(frame).__name__ == "DataFrame"


def test_errors_that_scikit_learn_knows(calib: Split) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="not fitted yet"):
        ordercal.TemperatureScaling().predict_proba(calib.scores)
    with pytest.raises(ordercal.NotFittedError) as caught:
        ordercal.TemperatureScaling().predict_proba(calib.scores)
    # As it comes back from another process.
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, NotFittedError) and again.args == caught.value.args
    with pytest.raises(NotFittedError):
        CalibratedClassifier().predict(calib.scores)
