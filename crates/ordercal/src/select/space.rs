//! The hyperparameters that a search looks at.

use crate::calibrate::{Diag, Family, Method, Network};

/// Widths of hidden layers for up to 100 classes, and for more; the paper's.
const WIDTHS: [usize; 7] = [1, 2, 10, 20, 50, 100, 150];
const WIDTHS_OF_MANY_CLASSES: [usize; 7] = [2, 10, 20, 50, 100, 150, 500];
/// Depths of networks; the paper's.
const DEPTHS: [usize; 3] = [1, 2, 3];
/// Weights of a network's L2 penalty, which shrinks it to temperature scaling.
const LAMBDAS: [f64; 3] = [1e-4, 1e-3, 1e-2];
/// Weights of `diag`'s penalty, which shrinks it to temperature scaling.
const SMOOTHNESS: [f64; 3] = [0.1, 1.0, 10.0];

/// Every setting of a method that the paper's protocol would try: 1 to 3 hidden layers of equal width for
/// the networks and `diag`, each with a few penalties; λ and μ for the ODIR methods. A method without
/// such settings is its own and only candidate.
///
/// ```
/// use ordercal::select::space;
/// use ordercal::{Method, Oi, Ts};
///
/// assert_eq!(space(&Oi::default().into(), 10).len(), 7 * 3 * 3);
/// assert_eq!(space(&Ts::default().into(), 10), [Method::from(Ts::default())]);
/// ```
pub fn space(method: &Method, classes: usize) -> Vec<Method> {
    match method {
        Method::Oi(given) => networks(given, classes),
        Method::Op(given) => networks(given, classes),
        Method::Unconstrained(given) => networks(given, classes),
        Method::Diag(given) => diags(given, classes),
        Method::MsOdir(given) => given.grid().into_iter().map(Method::from).collect(),
        Method::DirOdir(given) => given.grid().into_iter().map(Method::from).collect(),
        Method::Ordered(given) => {
            let inner = space(given.inner(), classes);
            inner.into_iter().map(Method::keep_order).collect()
        }
        other => vec![other.clone()],
    }
}

fn layers(classes: usize) -> impl Iterator<Item = Vec<usize>> {
    let widths = if classes > 100 {
        WIDTHS_OF_MANY_CLASSES
    } else {
        WIDTHS
    };
    DEPTHS
        .into_iter()
        .flat_map(move |depth| widths.map(|width| vec![width; depth]))
}

fn networks<F: Family>(given: &Network<F>, classes: usize) -> Vec<Method>
where
    Method: From<Network<F>>,
{
    let settings =
        layers(classes).flat_map(|hidden| LAMBDAS.map(|lambda| (hidden.clone(), lambda)));
    let candidates = settings.map(|(hidden, lambda)| {
        let candidate = given.clone().with_hidden(&hidden).with_lambda(lambda);
        Method::from(candidate)
    });
    candidates.collect()
}

fn diags(given: &Diag, classes: usize) -> Vec<Method> {
    let settings = layers(classes).flat_map(|hidden| SMOOTHNESS.map(|s| (hidden.clone(), s)));
    let candidates = settings.map(|(hidden, smoothness)| {
        let candidate = given.clone().with_hidden(&hidden);
        Method::from(candidate.with_smoothness(smoothness))
    });
    candidates.collect()
}

/// The same method with a tenth of the work, or as little as it takes to see which settings are hopeless.
pub(super) fn cheaper(method: &Method) -> Method {
    match method {
        Method::Oi(given) => cheaper_network(given).into(),
        Method::Op(given) => cheaper_network(given).into(),
        Method::Unconstrained(given) => cheaper_network(given).into(),
        Method::Diag(given) => {
            let mut cheap = given.clone();
            cheap.intervals = cheap.intervals.min(512);
            cheap.optimizer.max_iterations = cheap.optimizer.max_iterations.min(20);
            cheap.into()
        }
        Method::MsOdir(given) => {
            let mut cheap = given.clone();
            cheap.optimizer.max_iterations = cheap.optimizer.max_iterations.min(15);
            cheap.into()
        }
        Method::DirOdir(given) => {
            let mut cheap = given.clone();
            cheap.optimizer.max_iterations = cheap.optimizer.max_iterations.min(15);
            cheap.into()
        }
        Method::Ordered(given) => cheaper(given.inner()).keep_order(),
        other => other.clone(),
    }
}

fn cheaper_network<F: Family>(given: &Network<F>) -> Network<F> {
    let mut cheap = given.clone();
    match &mut cheap.optimizer {
        crate::optim::Optimizer::Adam(adam) => adam.epochs = adam.epochs.min(3),
        crate::optim::Optimizer::Lbfgs(lbfgs) => {
            lbfgs.max_iterations = lbfgs.max_iterations.min(10);
        }
    }
    cheap
}
