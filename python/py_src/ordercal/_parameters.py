"""What the keywords of every method mean, made by `tools/make_stubs.py` from the Rust documentation."""

from __future__ import annotations

PARAMETERS: dict[str, dict[str, str]] = {'vs': {'input': 'The shift that is subtracted from a row of scores.',
        'optimizer': 'The settings of the optimiser.'},
 'ms-odir': {'input': 'The shift that is subtracted from a row of scores.',
             'lambda': 'λ ≥ 0, the weight of the mean square of the off-diagonal weights.',
             'mu': 'μ ≥ 0, the weight of the mean square of the biases.',
             'optimizer': 'The settings of the optimiser.'},
 'dir-odir': {'lambda': 'λ ≥ 0, the weight of the mean square of the off-diagonal weights.',
              'mu': 'μ ≥ 0, the weight of the mean square of the biases.',
              'optimizer': 'The settings of the optimiser.'},
 'svs': {'lambda': 'λ ≥ 0, the weight of the penalty.', 'optimizer': 'The settings of the optimiser.'},
 'sms': {'lambda': 'λ ≥ 0, the weight of the penalty.', 'optimizer': 'The settings of the optimiser.'},
 'platt': {'smoothing': 'The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n '
                        'rows; positive.',
           'targets': 'The targets of the regression.'},
 'beta': {'smoothing': 'The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n '
                       'rows; positive.',
          'targets': 'The targets of the regression.'},
 'isotonic': {'lines': 'The end points of the lines between blocks.',
              'smoothing': 'The weight of the uniform distribution in the result is `smoothing`/(n + 1) for '
                           'n rows; positive.'},
 'histogram': {'bins': 'The number of bins of each histogram, 1 to 100000.',
               'layout': 'The placement of the bins.',
               'smoothing': 'The weight of the uniform distribution in the result is `smoothing`/(n + 1) for '
                            'n rows; positive.'},
 'bbq': {'prior': 'The weight of the prior of a histogram, in cases; it is divided evenly among the bins. '
                  'Positive.',
         'smoothing': 'The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n '
                      'rows; positive.'},
 'diag': {'hidden': 'The number of units of each hidden layer.',
          'input': 'The shift that is subtracted from a row before f̄ is applied.',
          'intervals': 'The number of intervals of the grid.',
          'lambda': 'λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.',
          'optimizer': 'The settings of the optimiser.',
          'seed': 'The seed of the initial weights.',
          'smoothness': 'The weight of the penalty on changes of f̄′, at least 0.'},
 'oi': {'early_stopping': 'Early stopping by the loss on held-out rows; `None` to train on all rows to the '
                          'end.',
        'hidden': 'The number of units of each hidden layer.',
        'input': 'The shift that is subtracted from a row before it enters the network.',
        'lambda': 'λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.',
        'optimizer': 'The optimiser and its settings.',
        'seed': 'The seed of the initial weights, the mini-batches and the held-out rows.',
        'top': 'Read only so many of the largest scores and the log-sum-exp of the rest, whose gaps share '
               'one multiplier (`oi`, `op`). `None`, or at least the number of classes less one, to read all '
               'scores.'},
 'op': {'early_stopping': 'Early stopping by the loss on held-out rows; `None` to train on all rows to the '
                          'end.',
        'hidden': 'The number of units of each hidden layer.',
        'input': 'The shift that is subtracted from a row before it enters the network.',
        'lambda': 'λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.',
        'optimizer': 'The optimiser and its settings.',
        'seed': 'The seed of the initial weights, the mini-batches and the held-out rows.',
        'top': 'Read only so many of the largest scores and the log-sum-exp of the rest, whose gaps share '
               'one multiplier (`oi`, `op`). `None`, or at least the number of classes less one, to read all '
               'scores.'},
 'unconstrained': {'early_stopping': 'Early stopping by the loss on held-out rows; `None` to train on all '
                                     'rows to the end.',
                   'hidden': 'The number of units of each hidden layer.',
                   'input': 'The shift that is subtracted from a row before it enters the network.',
                   'lambda': 'λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.',
                   'optimizer': 'The optimiser and its settings.',
                   'seed': 'The seed of the initial weights, the mini-batches and the held-out rows.',
                   'top': 'Read only so many of the largest scores and the log-sum-exp of the rest, whose '
                          'gaps share one multiplier (`oi`, `op`). `None`, or at least the number of classes '
                          'less one, to read all scores.'},
 'auto': {'chains': 'Whether there are candidates that read what `diag` or `oi` say.',
          'effort': 'How much work it may do.',
          'folds': 'How many folds; without a number 5, or 10 where there are few rows, or 3 where there are '
                   'many.',
          'polish': 'Whether to put a last temperature behind the mixture.',
          'seed': 'The seed of the folds and of the candidates.'},
 'auto-free': {'chains': 'Whether there are candidates that read what `diag` or `oi` say.',
               'effort': 'How much work it may do.',
               'folds': 'How many folds; without a number 5, or 10 where there are few rows, or 3 where '
                        'there are many.',
               'polish': 'Whether to put a last temperature behind the mixture.',
               'seed': 'The seed of the folds and of the candidates.'}}
