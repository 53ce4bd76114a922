"""CAMixup of word embeddings in the Hugging Face Trainer: a deep ensemble of tiny BERTs. Below a minute.

    pip install 'calmix[transformers]' datasets
    python examples/huggingface_trainer.py

Models are built from a configuration and texts are made here, so nothing is downloaded. For models of your
own, use `from_pretrained(name, num_labels=...)`, its tokenizer, and `DataCollatorWithPadding`.
"""

import random
import tempfile

import torch
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers.utils import logging

import calmix
from calmix.integrations.transformers import MixedClassifier, MixerCallback

WORDS = {
    "praise": ["good", "great", "fine", "lovely", "superb", "pleasant"],
    "blame": ["bad", "poor", "dull", "awful", "weak", "tiresome"],
    "neither": ["long", "short", "recent", "local", "printed", "plain"],
}
FILLERS = ["the", "film", "book", "was", "and", "its", "plot", "with", "a", "story", "by", "that"]
OPINIONS = [word for words in WORDS.values() for word in words]
VOCABULARY = {word: k for k, word in enumerate(["<pad>", *FILLERS, *OPINIONS])}


def make_texts(size, seed):
    """Sentences with words of their class, and some of the others; 15 % have a random label."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(size):
        label = draw.randrange(3)
        words = draw.choices(FILLERS, k=draw.randint(3, 6))
        words += draw.choices(list(WORDS.values())[label], k=2) + draw.choices(OPINIONS, k=1)
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label if draw.random() > 0.15 else draw.randrange(3))
    return tokenise(texts, labels)


def tokenise(texts, labels, length=10):
    ids = [[VOCABULARY[word] for word in text.split()] for text in texts]
    mask = [[1] * len(row) + [0] * (length - len(row)) for row in ids]
    padded = [row + [0] * (length - len(row)) for row in ids]
    return Dataset.from_dict({"input_ids": padded, "attention_mask": mask, "labels": labels})


def main(seed=0):
    set_seed(seed)
    logging.set_verbosity_error()
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=10,
        num_labels=3,
    )
    networks = [BertForSequenceClassification(config) for _ in range(3)]
    model = MixedClassifier(
        calmix.DeepEnsemble(networks, output="logits"), calmix.CAMixup(num_classes=3, members=3)
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=6,
            per_device_train_batch_size=50,
            learning_rate=2e-3,
            max_grad_norm=0,  # clipping by the norm over all members would couple them
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=not torch.cuda.is_available(),
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=make_texts(600, seed=1),
            eval_dataset=make_texts(300, seed=2),
            callbacks=[MixerCallback()],
        )
        trainer.train()
        output = trainer.predict(make_texts(400, seed=3))
    predictions = calmix.Predictions.from_batch_first(
        output.predictions, output.label_ids, classes=tuple(WORDS)
    )
    probs = calmix.pool(predictions.logits)
    print(predictions)
    print(f"accuracy {calmix.metrics.accuracy(probs, predictions.labels):.3f}", end="  ")
    print(f"ECE {calmix.metrics.ece(probs, predictions.labels):.3f}")
    print(f"classes mixed, by epoch and member: {model.mixer.history.sum(2).tolist()}")


if __name__ == "__main__":
    main()
