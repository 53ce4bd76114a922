"""Words of an audit's page, explained to a reader from outside the field."""

from calmix.auditing.measures import MEASURES

GLOSSARY = {
    "Accuracy": "The share of predictions that are right.",
    "Confidence": "The probability that the model gives to the class it predicts: how sure it says it is.",
    "Calibrated": "As often right as it says: of all predictions made with 80 % confidence, 80 % are right.",
    "Gap": "Accuracy minus mean confidence. Below 0 the model is over-confident, above 0 under-confident.",
    "Tolerance": "A gap that does no harm. Within it a model counts as calibrated.",
    "Over-confident": "Surer than it should be: it is right less often than it says.",
    "Under-confident": "Less sure than it could be: it is right more often than it says.",
    "Mixed": "Too sure in some places and not sure enough in others; on average the errors cancel.",
    "Inconclusive": "Too few examples to tell whether the gap matters.",
    "Member, pool": "Members are the models of an ensemble. The pool is the mean of their probabilities.",
    "Interval": "The range in which the true value lies, with the probability given (95 % unless said). "
    "Intervals that hold all at once are wider, so that none of many classes is accused by chance.",
    "By chance": "What a perfectly calibrated model with the same probabilities would show on as many "
    "examples: its mean, and the value that it exceeds in 5 % of cases.",
    "p": "How often a perfectly calibrated model would show an error at least as large. Small is suspicious.",
    "Reliability diagram": "Predictions are sorted into bins by confidence. On the diagonal they are as "
    "often right as they say; above it they are right more often.",
    "Consistency band": "Where the bins of a perfectly calibrated model would lie in 95 % of cases.",
    "Isotonic (CORP) curve": "The rising curve that fits the outcomes best, without bins.",
    "Remedy": "A small correction of the probabilities, fitted on held-out examples; the model stays.",
    "Class-wise probability": "The mean probability given to a class, against how often it really occurs.",
}
GLOSSARY |= {
    measure.title: f"{measure.explanation[0].upper()}{measure.explanation[1:]}."
    for measure in MEASURES.values()
    if measure.title not in GLOSSARY
}
