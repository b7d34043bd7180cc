//! The table of metrics: what each is called, what it asks, and how it is computed.
//!
//! Everything that lists, explains or computes metrics (`evaluate`, bootstrap, [`MetricState`](crate::metrics::MetricState),
//! reports, the command line, Python) follows from it.

#[cfg(test)]
use super::Function;
use crate::error::Result;
use crate::metrics::binning::{
    Binning, debiased_square, largest_cumulative_gap, largest_gap, norm_of_gaps, root,
};
use crate::metrics::classwise::mean;
use crate::metrics::cox;
use crate::metrics::definition::{Best, Compute, Definition};
use crate::metrics::ranking::{self, Tied, by_descending_confidence};
use crate::metrics::smooth::smooth_error;
use crate::metrics::{MetricOptions, Predictions, spiegelhalter};

metrics! {
    /// Of equally probable classes the first is the prediction.
    Accuracy = "accuracy" => accuracy {
        name: "Accuracy",
        brief: "How often the prediction is right: the share of rows whose most probable class is the label.",
        formula: "(1/N) Σᵢ 1{argmax pᵢ = yᵢ}",
        range: "0 to 1",
        caveat: "It says nothing about the probabilities, and no calibrator that keeps the order can change it.",
        equals: "scikit-learn's accuracy_score of the argmax",
        best: Best::Highest,
        compute: Compute::Rows(|rows, _| rows.top_k(1)),
    }
    /// The 5 is [`top_k`](MetricOptions::top_k). Equally probable classes are in order of their index.
    Top5 = "top5" => top_k_accuracy {
        name: "Top-5 accuracy",
        brief: "How often the label is near the top: the share of rows whose label is among the 5 most probable classes.",
        formula: "(1/N) Σᵢ 1{yᵢ is among the 5 largest of pᵢ}",
        range: "0 to 1",
        caveat: "It says nothing about the probabilities, and with 5 classes or fewer it is always 1.",
        equals: "scikit-learn's top_k_accuracy_score where no probabilities are tied",
        best: Best::Highest,
        compute: Compute::Rows(|rows, options| rows.top_k(options.top_k)),
    }
    /// Of scores, log p_y is computed as score − logsumexp, so it is finite whatever the scores. Of probabilities, a
    /// label with probability 0 makes the mean infinite, unless [`clip`](MetricOptions::clip) is above 0: the label's
    /// probability then counts as at least that much.
    Nll = "nll" => nll {
        name: "NLL",
        brief: "Negative log-likelihood, which rewards probabilities that are both calibrated and sharp: the mean of −log of the label's probability.",
        formula: "−(1/N) Σᵢ ln pᵢ(yᵢ)",
        range: "0 to infinity",
        caveat: "It mixes calibration with accuracy, and a few labels with tiny probabilities can decide it.",
        equals: "scikit-learn's log_loss",
        best: Best::Lowest,
        compute: Compute::Rows(|rows, options| {
            let largest = options.largest_nll();
            rows.mean(|stat| stat.nll.min(largest))
        }),
    }
    /// The scale is that of the tables of Rahimi et al. (2020); Brier's own (1950) is that of [`brier_sum`].
    Brier = "brier" => brier {
        name: "Brier score",
        brief: "How far the probabilities are from the outcome: the squared difference from 1 for the label and 0 for the others, averaged over rows and classes.",
        formula: "(1/NK) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})²",
        range: "0 to 2/K",
        caveat: "It mixes calibration with accuracy, and it shrinks as the number of classes grows, so that values for different numbers of classes cannot be compared; brier_sum has the usual scale.",
        equals: "scikit-learn's brier_score_loss with scale_by_half=False, divided by K",
        best: Best::Lowest,
        compute: Compute::Rows(|rows, _| rows.mean(|stat| stat.brier) / rows.classes as f64),
    }
    /// Guo et al. (2017). Bins are closed on the right, and a confidence of 0 is in the first (see
    /// [`Binning::EqualWidth`]); netcal and torchmetrics close theirs on the left. With [`norm`](MetricOptions::norm) p it
    /// is (Σ |B|/N · |acc − conf|ᵖ)^(1/p).
    Ece = "ece" => ece {
        name: "ECE",
        brief: "Expected calibration error, how far confidence is from accuracy: the mean gap between the two over bins of equal width, weighted by the bins' rows.",
        formula: "Σ_B |B|/N · |acc(B) − conf(B)| over 15 bins (lo, hi] of equal width",
        range: "0 to 1",
        caveat: "Chance makes it larger, the more so the fewer rows there are; within a bin, confidences that are too high and too low cancel; and it is 0 if every confidence is the overall accuracy, which says nothing about single rows.",
        equals: "netcal's ECE and torchmetrics' MulticlassCalibrationError where no confidence lies on an edge of a bin",
        best: Best::Lowest,
        compute: Compute::Bins(Binning::EqualWidth, |bins, options| norm_of_gaps(bins, options.norm)),
    }
    /// Naeini et al. (2015), over the bins of [`ece`].
    Mce = "mce" => mce {
        name: "MCE",
        brief: "Maximum calibration error: the largest gap between confidence and accuracy in any bin of equal width.",
        formula: "max_B |acc(B) − conf(B)| over 15 bins (lo, hi] of equal width",
        range: "0 to 1",
        caveat: "A single row that is alone in its bin can decide it, so it is large by chance where rows are few.",
        equals: "netcal's MCE and torchmetrics' MulticlassCalibrationError with norm='max' where no confidence lies on an edge of a bin",
        best: Best::Lowest,
        compute: Compute::Bins(Binning::EqualWidth, |bins, _| largest_gap(bins)),
    }
    /// Nixon et al. (2019). The bins are those of [`Binning::EqualMass`]: equal confidences share a bin, and N rows make
    /// at most N bins.
    AdaptiveEce = "adaptive_ece" => adaptive_ece {
        name: "Adaptive ECE",
        brief: "How far confidence is from accuracy: the mean gap between the two over bins of equally many rows.",
        formula: "Σ_B |B|/N · |acc(B) − conf(B)| over 15 bins of equally many rows",
        range: "0 to 1",
        caveat: "Chance makes it larger, the more so the fewer rows there are, and within a bin, confidences that are too high and too low cancel.",
        equals: "uncertainty-calibration's get_ece_em",
        best: Best::Lowest,
        compute: Compute::Bins(Binning::EqualMass, |bins, options| norm_of_gaps(bins, options.norm)),
    }
    /// The mean over the classes of the binary [`ece`] of pⱼ against 1{y = j}. A class that no row has counts like any
    /// other. With [`norm`](MetricOptions::norm) p it is the p-th root of the classes' mean p-th powers.
    ///
    /// # Do not use it alone
    /// On balanced data it can be made to look perfect without calibrating anything (Rahimi et al. 2020, appendix):
    /// divide all logits by 1000. Every pⱼ becomes nearly 1/K, so all rows of a class fall into one bin, where the mean
    /// probability is 1/K and so is the share of the class. [`ece`], [`nll`] and [`brier`] show that nothing was learned;
    /// the equal-mass bins of [`marginal_ce`] keep rows apart. The example `classwise_ece_misleads` shows the numbers.
    ClasswiseEce = "classwise_ece" => classwise_ece {
        name: "Classwise ECE",
        brief: "How far every class's probability is from that class's frequency: the mean gap over bins of equal width, averaged over the classes.",
        formula: "(1/K) Σⱼ Σ_B |B|/N · |share of class j in B − mean pⱼ in B| over 15 bins of equal width",
        range: "0 to 1",
        caveat: "On balanced data it can be made nearly 0 by dividing all logits by 1000, and with many classes nearly all rows are in the first bin; read it with ece or nll.",
        equals: "uncertainty-calibration's lower_bound_scaling_ce with mode='marginal', debias=False and bins of equal width",
        best: Best::Lowest,
        compute: Compute::PerClass(Binning::EqualWidth, |errors, options| {
            root(mean(errors), options.norm)
        }),
    }
    /// The bins are those of [`Binning::LeftClosed`], one fewer than [`bins`](MetricOptions::bins). With
    /// [`norm`](MetricOptions::norm) p it is the p-th root of the sum of the classes' p-th powers.
    ClasswiseEceSum = "classwise_ece_sum" => classwise_ece_sum {
        name: "Classwise ECE (sum)",
        brief: "How far every class's probability is from that class's frequency: the mean gap over 14 left-closed bins of equal width, added up over the classes as in Kull et al.",
        formula: "Σⱼ Σ_B |B|/N · |share of class j in B − mean pⱼ in B| over 14 bins [lo, hi) of equal width",
        range: "0 to K",
        caveat: "It grows with the number of classes, and has the weaknesses of classwise_ece.",
        equals: "the code of Kull et al. (2019) and the tables of Rahimi et al. (2020)",
        best: Best::Lowest,
        compute: Compute::PerClass(Binning::LeftClosed, |errors, options| {
            root(errors.iter().sum(), options.norm)
        }),
    }
    /// Kumar et al. (2019). The bins are those of [`Binning::EqualMass`]; bins of fewer than 2 rows add 0. Weights count
    /// rows: |B| is the sum of the weights.
    DebiasedEce = "debiased_ece" => debiased_ece {
        name: "Debiased ECE",
        brief: "How far confidence is from accuracy: the root-mean-square gap over bins of equally many rows, minus what sampling noise adds to it.",
        formula: "√max(0, Σ_B |B|/N · ((conf − acc)² − acc(1 − acc)/(|B| − 1))) over 15 bins of equally many rows",
        range: "0 to 1",
        caveat: "It is a root mean square and not comparable with ece, and it is often exactly 0 for a small error on few rows.",
        equals: "uncertainty-calibration's lower_bound_scaling_top_ce",
        best: Best::Lowest,
        compute: Compute::Bins(Binning::EqualMass, |bins, _| debiased_square(bins).sqrt()),
    }
    /// Kumar et al. (2019): [`debiased_ece`] of every class's pⱼ against 1{y = j}, each with bins of its own.
    MarginalCe = "marginal_ce" => marginal_ce {
        name: "Marginal CE",
        brief: "How far every class's probability is from that class's frequency: the root-mean-square gap over bins of equally many rows and over the classes, minus what sampling noise adds to it.",
        formula: "√((1/K) Σⱼ max(0, Σ_B |B|/N · ((q − f)² − f(1 − f)/(|B| − 1)))) over 15 bins of equally many rows, with the mean probability q and the frequency f of class j in B",
        range: "0 to 1",
        caveat: "With many classes most rows have probabilities near 0 for a class, so it is small whatever the predicted class's error is.",
        equals: "uncertainty-calibration's lower_bound_scaling_ce",
        best: Best::Lowest,
        compute: Compute::PerClass(Binning::EqualMass, |squares, _| mean(squares).sqrt()),
    }
    /// Gupta et al. (2021). Rows with equal confidences are added together, so their order does not matter.
    Ks = "ks" => ks {
        name: "KS error",
        brief: "Kolmogorov–Smirnov calibration error, without bins: the largest cumulative difference between confidence and accuracy, in order of confidence.",
        formula: "max_c |(1/N) Σ_{conf ≤ c} (conf − hit)|",
        range: "0 to 1",
        caveat: "Where some confidences are too high and others too low, the two cancel in the sum; and chance makes it larger, the more so the fewer rows there are.",
        equals: "its definition by Gupta et al. (2021), written in numpy",
        best: Best::Lowest,
        compute: Compute::TopLabel(|rows, _| largest_cumulative_gap(rows)),
    }
    /// Błasiok and Nakkiran (2023). The kernel is reflected at 0 and 1. The grid (at least 1000 intervals, at least 10 per
    /// kernel width), the ten bisection steps for the width, and its smallest value of 0.001 are relplot's.
    SmEce = "sm_ece" => sm_ece {
        name: "Smooth ECE",
        brief: "How far confidence is from accuracy, without bins: the mean absolute difference after smoothing with a Gaussian kernel.",
        formula: "Σ |S(conf − hit)| / Σ S(1) over a grid of confidences, where S smooths with a Gaussian kernel of the width at which the result equals the width",
        range: "0 to 1",
        caveat: "Chance makes it larger; and relplot's kernel counts rows with a confidence of nearly 0 or 1 by half, so that it can be above ece where most rows are such.",
        equals: "relplot's smECE",
        best: Best::Lowest,
        compute: Compute::TopLabel(|rows, _| smooth_error(rows)),
    }
    /// The definition of Brier (1950), K times [`brier`].
    BrierSum = "brier_sum" => brier_sum {
        name: "Brier score (sum)",
        brief: "How far the probabilities are from the outcome, on Brier's own scale: the squared difference from 1 for the label and 0 for the others, added up over the classes.",
        formula: "(1/N) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})²",
        range: "0 to 2",
        caveat: "It mixes calibration with accuracy; for two classes it is twice what most packages call the Brier score.",
        equals: "scikit-learn's brier_score_loss with scale_by_half=False, its default for more than two classes",
        best: Best::Lowest,
        compute: Compute::Rows(|rows, _| rows.mean(|stat| stat.brier)),
    }
    /// The binary [`ece`] of p₁ against 1{y = 1}.
    EcePositive = "ece_positive" => ece_positive {
        name: "ECE (positive)",
        brief: "For two classes only, how far the probability of the second (positive) class is from its frequency: the mean gap between the two over bins of equal width.",
        formula: "Σ_B |B|/N · |share of positives in B − mean p in B| over 15 bins (lo, hi] of equal width",
        range: "0 to 1",
        caveat: "It is not ece, which looks at the predicted class of every row; with few positives nearly all rows are in the first bin.",
        equals: "the usual ECE of binary classifiers, Σ share · |gap| of scikit-learn's calibration_curve with 15 uniform bins where no probability lies on an edge",
        best: Best::Lowest,
        compute: Compute::PerClass(Binning::EqualWidth, |errors, options| {
            root(errors[1], options.norm)
        }),
    }
    /// Also called failure prediction or misclassification detection (Hendrycks and Gimpel 2017).
    Auroc = "auroc" => auroc {
        name: "AUROC",
        brief: "How well confidence separates right from wrong predictions: the probability that a right one has a higher confidence than a wrong one, where a tie counts as half.",
        formula: "P(conf of a right row > conf of a wrong row) + ½ P(they are equal)",
        range: "0 to 1, 0.5 for chance",
        caveat: "It reads only the order of the confidences, so it is blind to calibration, and it cannot be compared between classifiers of different accuracy; undefined (NaN) if all predictions are right or all are wrong.",
        equals: "scikit-learn's roc_auc_score(hit, confidence)",
        best: Best::Highest,
        compute: Compute::TopLabel(|rows, _| ranking::area(&by_descending_confidence(rows)).0),
    }
    /// Rows with equal confidences enter together.
    Ap = "ap" => ap {
        name: "Average precision",
        brief: "How accurate the more confident predictions are: the accuracy above a confidence, averaged over the confidences of the right predictions.",
        formula: "Σ_c (R(c) − R(c⁺)) · accuracy of the rows with conf ≥ c, where R(c) is the share of the right rows that have conf ≥ c, and c⁺ the next higher confidence",
        range: "0 to 1",
        caveat: "It reads only the order of the confidences, and is close to 1 for every accurate classifier; undefined (NaN) if no prediction is right.",
        equals: "scikit-learn's average_precision_score(hit, confidence)",
        best: Best::Highest,
        compute: Compute::TopLabel(|rows, _| {
            1.0 - ranking::mean_risk(&by_descending_confidence(rows), |group| group.right).0
        }),
    }
    /// A selective classifier answers only where its confidence is at least c; its risk is the error rate there. Rows
    /// with equal confidences enter together.
    Aurc = "aurc" => aurc {
        name: "AURC",
        brief: "How often a classifier errs that answers only if it is confident enough: the area under the risk–coverage curve, the mean error rate over all thresholds of the confidence.",
        formula: "(1/N) Σᵢ (share of wrong ones among the rows with conf ≥ confᵢ)",
        range: "0 to 1",
        caveat: "It reads only the order of the confidences, so it is blind to calibration, and it mixes that order with the accuracy, whose part eaurc subtracts.",
        equals: "its definition by Geifman et al. (2019) where no confidences are tied",
        best: Best::Lowest,
        compute: Compute::TopLabel(|rows, _| {
            ranking::mean_risk(&by_descending_confidence(rows), Tied::weight).0
        }),
    }
    /// Geifman et al. (2019): [`aurc`] minus the area of the best order of many rows.
    Eaurc = "eaurc" => eaurc {
        name: "Excess AURC",
        brief: "What the order of the confidences costs: aurc minus what it would be if every right prediction were more confident than every wrong one.",
        formula: "aurc − (r + (1 − r) ln(1 − r)), where r is the error rate",
        range: "0 to 1",
        caveat: "It reads only the order of the confidences, so it is blind to calibration, and its scale depends on the error rate.",
        equals: "its definition by Geifman et al. (2019) where no confidences are tied",
        best: Best::Lowest,
        compute: Compute::TopLabel(|rows, _| ranking::excess_risk(&by_descending_confidence(rows))),
    }
    /// Spiegelhalter (1986), of the predicted class. Weights are counts. Under calibration it is nearly standard normal.
    SpiegelhalterZ = "spiegelhalter_z" => spiegelhalter_z {
        name: "Spiegelhalter's Z",
        brief: "Whether confidences are further from the outcomes than chance explains: the Brier score of the confidence minus its expectation, in standard deviations.",
        formula: "Σ (hit − c)(1 − 2c) / √(Σ (1 − 2c)² c(1 − c)) with the confidence c",
        range: "any number; within ±1.96 for 95 % of calibrated classifiers, positive if overconfident",
        caveat: "It tests whether there is an error and does not measure how large it is: the same error gives a larger value on more rows; errors of opposite signs cancel; undefined (NaN) if every confidence is 1.",
        equals: "its definition by Spiegelhalter (1986), which for two classes is the same for the predicted and the positive class",
        best: Best::Value(0.0),
        compute: Compute::Rows(|rows, _| spiegelhalter::statistic(rows)),
    }
    /// Cox (1958): b of logit P(it happens) = a + b · logit p, by maximum likelihood. With two classes p is the probability
    /// of the second, as in the clinical literature; with more, the confidence, and what happens is that the prediction
    /// is right. Probabilities closer to 0 or 1 than 2⁻⁵³ count as that close.
    CoxSlope = "cox_slope" => cox_slope {
        name: "Cox slope",
        brief: "Whether probabilities are too extreme: the slope of a logistic regression of the outcome on the log-odds of its probability, below 1 if they are too extreme and above 1 if they are too cautious.",
        formula: "b of the logistic regression ln(P/(1 − P)) = a + b · ln(p/(1 − p)), where P is the true probability of an outcome that was given p",
        range: "any number; 1 if calibrated",
        caveat: "The outcome is that the prediction is right, or with two classes that the label is the second; a single confident error can change it much; undefined (NaN) if all outcomes are the same or a threshold of the probability separates them.",
        equals: "an unpenalised logistic regression on the log-odds, as of scikit-learn's LogisticRegression(C=inf)",
        best: Best::Value(1.0),
        compute: Compute::Rows(|rows, _| cox::fit(&cox::points(rows)).map_or(f64::NAN, |fit| fit.slope)),
    }
    /// It is estimated together with [`cox_slope`].
    CoxIntercept = "cox_intercept" => cox_intercept {
        name: "Cox intercept",
        brief: "Whether probabilities are too low or too high at even odds: the intercept of the logistic regression that gives cox_slope, above 0 if they are too low.",
        formula: "a of the logistic regression ln(P/(1 − P)) = a + b · ln(p/(1 − p)), where P is the true probability of an outcome that was given p",
        range: "any number; 0 if calibrated",
        caveat: "It is fitted together with the slope, so it is not the intercept for a slope of 1 (calibration in the large); the outcome is that the prediction is right, or with two classes that the label is the second.",
        equals: "an unpenalised logistic regression on the log-odds, as of scikit-learn's LogisticRegression(C=inf)",
        best: Best::Value(0.0),
        compute: Compute::Rows(|rows, _| {
            cox::fit(&cox::points(rows)).map_or(f64::NAN, |fit| fit.intercept)
        }),
    }
    /// A point of the risk–coverage curve. Of rows with equal confidences at the end, each counts in part, which is the
    /// mean over all orders of them.
    AccuracyAtCoverage = "accuracy_at_coverage" => accuracy_at_coverage {
        name: "Accuracy at 80% coverage",
        brief: "How accurate a classifier is that answers only its most confident 80% of the rows: the share of right ones among them.",
        formula: "(1/0.8N) Σ 1{argmax pᵢ = yᵢ} over the 0.8N rows with the largest confᵢ; where rows are tied at the end, all of them count, by the share that is needed",
        range: "0 to 1",
        caveat: "It reads only the order of the confidences, so it is blind to calibration, and it looks at one coverage only; aurc looks at all.",
        equals: "scikit-learn's accuracy_score of the rows above the 20% quantile of the confidence, where no confidences are tied",
        best: Best::Highest,
        compute: Compute::TopLabel(|rows, _| {
            ranking::accuracy_at_coverage(&by_descending_confidence(rows)).0
        }),
    }
}
