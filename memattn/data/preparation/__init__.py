"""Prepares parallel text, trees and speech as corpora that training maps into memory."""
