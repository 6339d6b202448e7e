"""The corpus: short stories in simple English, made by a grammar written for this project.

A story has a hero, a friend, a place and one of the plots below. A plot is a function that writes the
sentences in order; wherever several sentences say what the plot needs, it picks one. Names, pronouns,
homes and objects stay the same throughout a story. The same seed gives the same stories.

    python stories.py --count 500 > stories-sample.txt
"""

import argparse
import random

GIRLS = "Mia Lily Anna Rosa Nell Poppy Hazel Ivy Daisy Ella Ruby Wren Clara Tess Maya Fern Luna June".split()
BOYS = "Tom Ben Max Leo Sam Finn Otto Jack Milo Hugo Theo Pip Oscar Ned Toby Felix Rory Gus".split()

# Animals, and where each of them lives.
ANIMALS = {
    "fox": "in a den under an old oak tree",
    "rabbit": "in a burrow at the edge of the meadow",
    "bear": "in a warm cave on the hill",
    "mouse": "in a tiny hole behind the barn",
    "hedgehog": "in a nest of leaves under the hedge",
    "squirrel": "in a hollow in a tall pine tree",
    "duck": "in a nest among the reeds by the pond",
    "frog": "in a cool spot beside the pond",
    "cat": "in a yellow house on a quiet street",
    "dog": "in a red house at the end of the lane",
    "otter": "in a snug den on the river bank",
    "badger": "in a deep burrow in the woods",
    "goat": "on a small farm on the mountain",
    "pony": "in a stable next to the farm",
    "lamb": "in a green field near the village",
    "turtle": "on a sandy bank by the lake",
    "mole": "in a long tunnel under the garden",
    "beaver": "in a house of sticks in the river",
}
CHILD_HOMES = [
    "in a small house near the sea", "in a white house on a hill", "in a village beside a forest",
    "in a little cottage by the river", "in a tall house in the town", "on a farm with a big red barn",
]
# Seen now and then, so that a reader's own choice of hero is not a surprise to the model.
RARE = ("wolf lion elephant dragon robot monkey giraffe penguin tiger horse cow pig sheep swan crow raven snake "
        "lizard whale dolphin seal bat deer donkey camel koala panda zebra goose kitten puppy parrot knight "
        "giant wizard fairy sailor farmer").split()
RARE_HOMES = ["in a quiet valley", "at the end of the world", "in a far land", "on a little island", "behind the seven hills",
              "in an old tower"]
SYLLABLES = ["ba", "bel", "da", "den", "fa", "gi", "ha", "jo", "ka", "la", "lin", "lo", "ma", "mi", "na", "no", "pa", "ra",
             "ri", "sa", "sha", "ta", "ti", "to", "va", "vi", "wil", "ya", "zo", "ze"]
TRAITS = ["kind", "brave", "curious", "shy", "cheerful", "clever", "gentle", "busy", "quiet", "playful"]
ELDERS = [("the old owl", "She", "she", "her"), ("the wise old tortoise", "He", "he", "his"),
          ("the old goose", "She", "she", "her"), ("the old shepherd", "He", "he", "his"),
          ("the kind baker", "She", "she", "her"), ("the old fisherman", "He", "he", "his")]
PLACES = ["the forest", "the meadow", "the park", "the garden", "the hill", "the river bank", "the pond", "the orchard"]
DAYS = ["One sunny morning", "One day", "One cold morning", "One bright day", "One spring day", "One autumn day",
        "One warm afternoon", "Early one morning", "One windy day"]
FOODS = [("apple", "apples"), ("pear", "pears"), ("berry", "berries"), ("carrot", "carrots"), ("nut", "nuts"),
         ("plum", "plums"), ("cookie", "cookies"), ("pancake", "pancakes")]
COLOURS = ["red", "blue", "green", "yellow", "white", "purple", "orange"]


def article(noun):
    """The noun with a or an before it."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


class Someone:
    """A character: name, kind, and the pronouns that go with it."""

    def __init__(self, r, taken=(), animal=None):
        girl = r.random() < 0.5
        self.name = r.choice([n for n in (GIRLS if girl else BOYS) if n not in taken])
        if r.random() < 0.15:
            # A name that no list holds: the model must copy it, not recall it.
            self.name = "".join(r.sample(SYLLABLES, r.randint(2, 3))).capitalize()
        self.child = r.random() < 0.3 if animal is None else not animal
        rare = not self.child and r.random() < 0.12
        self.kind = ("girl" if girl else "boy") if self.child else r.choice(RARE if rare else list(ANIMALS))
        homes = CHILD_HOMES if self.child else RARE_HOMES if rare else [ANIMALS[self.kind]]
        self.home = r.choice(homes)
        self.trait = r.choice(TRAITS)
        self.she, self.her, self.his = ("she", "her", "her") if girl else ("he", "him", "his")
        self.She, self.His = self.she.capitalize(), self.his.capitalize()
        self.self = self.her + "self"
        self.parent = r.choice(["mother", "father", "grandmother", "grandfather"])
        self.titled = self.name if self.child else f"{self.name} the {self.kind}"


class Teller:
    """What every plot needs: chance, the hero, the friend, and the sentences written so far."""

    def __init__(self, r):
        self.r = r
        self.h = Someone(r)
        self.f = Someone(r, taken=[self.h.name])
        while self.f.kind == self.h.kind:
            self.f = Someone(r, taken=[self.h.name])
        self.lines = []

    def pick(self, *options):
        return self.r.choice(options)

    def say(self, *options):
        """Add one of the sentences."""
        self.lines.append(self.r.choice(options))

    def maybe(self, chance, *options):
        if self.r.random() < chance:
            self.say(*options)

    def opening(self, alone=False):
        """Who the story is about, and where they live; `alone` leaves friends out."""
        h = self.h
        size = self.pick("little", "little", "small", "young")
        self.say(
            f"Once upon a time, there was a {size} {h.kind} named {h.name}. {h.She} lived {h.home}.",
            f"Once upon a time, there was a {size} {h.kind} called {h.name} who lived {h.home}.",
            f"Once there was {article(h.trait)} {h.kind} named {h.name}. {h.She} lived {h.home}.",
            f"There once lived {article(h.trait)} {size} {h.kind} named {h.name}. {h.She} lived {h.home}.",
            f"There was a {size} {h.kind} named {h.name} who lived {h.home}.",
            f"{h.titled} lived {h.home}. {h.She} was {h.trait} and everyone liked {h.her}."
            if not h.child else f"{h.name} was {article(h.trait)} {h.kind} who lived {h.home}.",
            f"A long time ago, {article(h.trait)} {h.kind} named {h.name} lived {h.home}.",
        )
        self.maybe(
            0.0 if alone else 0.3,
            f"{h.She} loved to play outside.", f"Every day {h.she} played with {h.his} friends.",
            f"{h.She} liked to sing.", f"{h.She} was very {self.pick('happy', 'kind', 'curious')}.",
        )

    def friend_intro(self):
        f = self.f
        return f"{article(f.kind)} named {f.name}" if self.r.random() < 0.5 or f.child else f.titled

    def walk(self):
        """The hero sets out. Returns the place."""
        h, place = self.h, self.r.choice(PLACES)
        day = self.r.choice(DAYS)
        self.say(
            f"{day}, {h.name} went for a walk near {place}.",
            f"{day}, {h.name} walked to {place}.",
            f"{day}, {h.name} went out to play near {place}.",
            f"{day}, {h.she} took {h.his} basket and went to {place}.",
        )
        return place

    def moral(self, *options):
        h, f = self.h, self.f
        self.say(
            *options,
            *([f"From that day on, {h.name} and {f.name} were the best of friends.",
               f"{h.name} went home with a happy heart.",
               f"That night, {h.name} slept well and had sweet dreams."]),
        )


def lost_thing(t):
    """A dear thing is lost, looked for in three places, and found."""
    h, f = t.h, t.f
    colour = t.pick(*COLOURS)
    thing, at = t.pick(
        ("ball", "under a bush"), ("hat", "on a low branch"), ("kite", "in the top of a tree"),
        ("scarf", "on the garden fence"), ("boat", "between two stones in the stream"),
        ("bell", "in the long grass"), ("button", "under a pile of leaves"), ("whistle", "beside the old well"),
        ("mitten", "in the snow by the gate"), ("key", "under the doormat"),
    )
    t.opening()
    t.say(f"{h.She} had {article(colour)} {thing} that {h.she} loved very much.",
          f"{h.His} favorite thing was {article(colour)} {thing}. It was a gift from {h.his} {h.parent}.",
          f"For {h.his} birthday {h.she} got {article(colour)} {thing} from {h.his} {h.parent}.")
    place = t.walk()
    t.say(f"When {h.she} came home, the {thing} was gone!", f"Then {h.she} saw that the {colour} {thing} was not there.",
          f"But on the way home {h.she} lost the {colour} {thing}.")
    t.say(f'"Oh no! Where is my {thing}?" {h.she} cried.', f'"My {thing} is lost!" said {h.name}. {h.She} began to cry.',
          f"{h.name} was very sad.")
    t.say(f"{h.She} looked under the bed. It was not there. {h.She} looked behind the door. It was not there.",
          f"{h.She} looked in the kitchen and in the yard, but {h.she} could not find it.",
          f"{h.She} looked here and there, up and down, but the {thing} was nowhere.")
    t.say(f'Just then {t.friend_intro()} came by. "Why are you sad?" asked {f.name}.',
          f'{h.His} friend {f.name} heard {h.her}. "What is wrong?" asked {f.name}.',
          f'{h.She} met {t.friend_intro()}. "What are you looking for?" asked {f.name}.')
    t.say(f'"I lost my {colour} {thing}," said {h.name}.', f'"I cannot find my {thing}," {h.she} said.')
    t.say(f'"Do not worry. I will help you," said {f.name}.', f'"Let us look for it together," said {f.name}.',
          f'"Two can look better than one," said {f.name}.')
    t.say(f"They went back to {place} and looked everywhere.", f"So they walked back to {place} and looked with care.",
          f"Together they went along the path to {place}.")
    t.say(f'"Look!" said {f.name}. The {colour} {thing} was {at}!',
          f"At last {f.name} found the {colour} {thing}. It was {at}.",
          f"Then {h.name} saw something {colour}. It was the {thing}, {at}!")
    t.say(f'"Thank you, {f.name}!" said {h.name} and gave {f.her} a big hug.', f"{h.name} jumped with joy and thanked {f.her}.",
          f'"You are a good friend," said {h.name}.')
    t.moral(f"After that, {h.she} always took good care of the {thing}.",
            f"Then they played with the {colour} {thing} until the sun went down.")


def sharing(t):
    """Keeping all for oneself is no joy; sharing is."""
    h, f = t.h, t.f
    one, many = t.pick(*FOODS)
    t.opening()
    place = t.walk()
    t.say(f"There {h.she} found a big basket full of {many}.", f"{h.She} found a lot of sweet {many} there.",
          f"{h.She} came home with a whole bag of {many}.")
    t.say(f'"All of these {many} are mine!" said {h.name}.', f'"I will eat them all by myself," {h.she} thought.',
          f"{h.She} wanted to keep every {one} for {h.self}.")
    t.say(f"Soon {t.friend_intro()} came along.", f"Then {h.she} met {t.friend_intro()}.",
          f"On the path {h.she} saw {t.friend_intro()}.")
    t.say(f'"I am so hungry," said {f.name}. "May I have one {one}, please?"',
          f'"Those {many} look good," said {f.name}. "Can I have one?"')
    t.say(f'"No," said {h.name}. "They are all mine."', f"But {h.name} shook {h.his} head and walked away.",
          f'"No! Find your own {many}," said {h.name}.')
    t.say(f"{f.name} looked down and went away. {f.She} was sad.", f"{f.name} said nothing. A tear ran down {f.his} face.")
    t.say(f"{h.name} sat down to eat, but the {many} did not taste good.",
          f"{h.name} ate one {one}, and then another. But {h.she} felt lonely.",
          f"{h.name} sat alone with all the {many}. It was no fun.")
    t.say(f"{h.She} thought about {f.name}'s sad face.", f'"I was not kind," {h.she} thought.',
          f'"It is not nice to eat alone," {h.she} said.')
    t.say(f"So {h.she} ran after {f.name}.", f"{h.She} picked up the basket and went to find {f.name}.")
    t.say(f'"I am sorry," said {h.name}. "Please share my {many} with me."',
          f'"I am sorry, {f.name}," {h.she} said. "Here, half of the {many} are for you."')
    t.say(f"{f.name} smiled. They sat in the sun and ate together.",
          f"{f.name} was so happy. They sat down under a tree and ate the {many} together.")
    t.moral(f"The {many} had never tasted so sweet.", f"{h.name} learned that it is good to share.",
            f"Now {h.name} knew that sharing makes everything better.")


def storm(t):
    """Rain comes, and a small house has room for everyone."""
    h, f = t.h, t.f
    g = Someone(t.r, taken=[h.name, f.name], animal=True)
    t.opening()
    t.say("One day, dark clouds came over the hill.", "One afternoon, the sky turned gray and the wind began to blow.",
          "One evening, there was a big storm.")
    t.say("It began to rain. It rained and rained.", "Rain fell on the roof, and thunder rolled far away.",
          "The wind was loud, and the rain was cold.")
    t.say(f"{h.name} sat by the fire with a cup of warm milk.", f"{h.name} was warm and dry inside.",
          f"{h.name} closed the door and made some hot soup.")
    t.say("Then there was a knock at the door.", "Knock, knock! Someone was at the door.")
    t.say(f"It was {t.friend_intro()}. {f.She} was wet and cold.",
          f"There stood {t.friend_intro()}, wet from head to toe.")
    t.say(f'"My home is full of water," said {f.name}. "May I come in?"',
          f'"The wind blew my roof away," said {f.name}. "Can I stay with you?"')
    t.say(f'"Of course! Come in and get warm," said {h.name}.', f'"Yes, come in quickly," said {h.name}.')
    t.say(f"Soon there was another knock. It was {article(g.kind)} named {g.name}.",
          f"A little later {g.titled} came to the door, too." if not g.child else f"A little later {g.name} came to the door, too.")
    t.say(f'"Is there room for one more?" asked {g.name}.', f'"I am so cold," said {g.name}.')
    t.say(f'"My house is small, but there is always room for a friend," said {h.name}.',
          f'"There is room for all of us," said {h.name} with a smile.')
    t.say("They sat close together by the fire and told stories.", "They ate soup and sang songs until late at night.",
          f"{h.name} gave them a blanket, and they all drank warm milk.")
    t.say("In the morning the rain stopped, and a rainbow stood over the hill.", "In the morning the sun came out again.",
          "When they woke up, the sky was blue.")
    t.say(f"{f.name} and {g.name} thanked {h.name}.", f'"Thank you, {h.name}," said {f.name} and {g.name}.')
    t.moral(f"Then they all went to fix {f.name}'s home together.", "A small house is big enough when there is love in it.",
            "After that day, no one was afraid of the rain.")


def learning(t):
    """Something is hard, a friend shows how, and practice does the rest."""
    h, f = t.h, t.f
    what, fail, tip, win = t.pick(
        ("swim", "went under the water and came up with a wet nose", "Kick your legs and keep your head up",
         "swam all the way across the pond"),
        ("fly a kite", "ran and ran, but the kite fell to the ground", "Wait for the wind and then let the string go",
         "saw the kite go up, up, up into the sky"),
        ("whistle", "blew and blew, but no sound came out", "Make your lips round and blow very softly",
         "whistled a pretty song"),
        ("ride a bike", "fell off and hurt one knee", "Look ahead and do not stop",
         "rode all the way down the lane"),
        ("climb the big tree", "slipped and fell into the soft grass", "Hold on with both hands and go slowly",
         "sat on the top branch and looked at the whole valley"),
        ("skate", "slipped on the ice and sat down hard", "Take small steps and bend your knees",
         "went around the frozen lake three times"),
        ("bake bread", "burned the bread until it was black", "Watch the oven and count to one hundred",
         "took a golden loaf out of the oven"),
        ("read", "looked at the letters, but they made no sense", "Say each letter, one by one",
         "read a whole page without help"),
        ("jump over the stream", "jumped and landed in the water", "Run fast and jump with both feet",
         "landed on the other side"),
        ("sing", "opened wide, but only a squeak came out", "Take a deep breath and listen first",
         "sang so well that everyone stopped to listen"),
    )
    t.opening()
    t.say(f"{h.name} wanted to learn to {what}.", f"More than anything, {h.she} wanted to {what}.",
          f"All of {h.his} friends could {what}, but {h.name} could not.")
    day = t.r.choice(DAYS)
    t.say(f"{day}, {h.she} tried. {h.She} {fail}.", f"{day}, {h.she} tried it for the first time. But {h.she} {fail}.")
    t.say(f'"I will never learn it," said {h.name}.', f'"It is too hard!" {h.she} cried.', f"{h.name} felt sad and wanted to give up.")
    t.say(f"{f.titled} saw {h.her} and came closer.", f"{h.His} friend {f.name} sat down next to {h.her}.",
          f"Just then {t.friend_intro()} came by.")
    t.say(f'"I could not do it at first, too," said {f.name}. "{tip}."', f'"Let me show you," said {f.name}. "{tip}."',
          f'"Do not give up," said {f.name}. "{tip}."')
    t.say(f"{h.name} tried again. It was a little better.", f"So {h.name} tried again, and this time it was not so bad.")
    t.say("They practiced every day.", f"Day after day, {h.she} practiced with {f.name}.", f"{h.She} tried again and again for a whole week.")
    t.say(f"Then, one day, {h.name} {win}!", f"At last it worked. {h.name} {win}!", f"And then {h.she} {win}.")
    t.say(f'"I did it!" {h.she} cried.', f'"You did it!" said {f.name}.', f'"Look at me, {f.name}!" {h.she} called.')
    t.moral(f"{h.name} learned that hard things get easy when you keep trying.",
            f"The next day, {h.name} showed a small {t.pick('mouse', 'bird', 'rabbit')} how to {what}.",
            f"{h.His} {h.parent} was very proud of {h.her}.")


def fear(t):
    """A scary thing turns out to be small."""
    h, f = t.h, t.f
    sound, cause, where = t.pick(
        ("a strange scratching sound", "a tiny beetle looking for food", "under the floor"),
        ("a loud hoot", "a baby owl who could not sleep", "in the tree"),
        ("a tap, tap, tap", "a small branch that touched the glass", "at the window"),
        ("a low moan", "the wind in an empty bottle", "behind the shed"),
        ("a big splash", "a little fish who jumped for joy", "in the pond"),
        ("a soft rustle", "a hungry hedgehog", "in the dry leaves"),
        ("a squeak", "a little mouse with a cold", "behind the wall"),
    )
    t.opening()
    t.say(f"{h.name} was afraid of the dark.", f"But there was one thing {h.she} did not like. {h.She} was afraid of the dark.",
          f"{h.She} was brave in the day, but at night {h.she} was afraid.")
    t.say(f"One night, {h.she} heard {sound} {where}.", f"One night, when the moon was gone, there was {sound} {where}.")
    t.say(f'"It must be a monster!" thought {h.name}.', f"{h.name} hid under the blanket and shook.",
          f'"Who is there?" {h.she} asked. No one answered.')
    t.say(f"{h.She} ran to {h.his} friend {f.name}.", f"{h.She} called for {h.his} friend {f.name}.")
    t.say(f'"There is a monster {where}!" {h.she} cried.', f'"I am so scared," {h.she} said. "There is something {where}."')
    t.say(f'"Let us go and see," said {f.name}. "I will hold your hand."',
          f'"We will look together," said {f.name} and took a lamp.')
    t.say("Step by step, they went closer.", "They walked very slowly, side by side.", f"{f.name} held up the lamp.")
    t.say(f"There it was. It was only {cause}!", f"And what did they see? It was just {cause}.")
    t.say(f"{h.name} began to laugh.", f'"Oh! You are so small," laughed {h.name}.', f"They both laughed and laughed.")
    t.say(f'"Things look bigger in the dark," said {f.name}.', f'"When you know what it is, you are not afraid," said {f.name}.')
    t.moral(f"After that, {h.name} was not afraid of the dark anymore.",
            f"That night, {h.name} slept without fear.",
            f"Now, when {h.she} hears a sound at night, {h.she} goes to see what it is.")


def building(t):
    """The first one breaks, the second one, made together, holds."""
    h, f = t.h, t.f
    thing, poor, good, use = t.pick(
        ("boat", "paper", "wood", "sailed across the pond"),
        ("house", "leaves", "stones", "sat inside and drank tea"),
        ("bridge", "thin sticks", "strong logs", "walked over the stream with dry feet"),
        ("swing", "an old string", "a thick rope", "went up and down under the tree"),
        ("kite", "heavy cloth", "light paper", "watched it dance in the sky"),
        ("wagon", "soft cardboard", "wood and four wheels", "rolled down the hill"),
        ("snowman", "wet mud", "clean white snow", "gave him a carrot nose"),
        ("raft", "dry grass", "big branches", "floated down the river"),
    )
    t.opening()
    day = t.r.choice(DAYS)
    t.say(f"{day}, {h.name} wanted to build a {thing}.", f'{day}, {h.she} had an idea. "I will build a {thing}!" said {h.name}.')
    t.say(f"{h.She} did not ask anyone for help.", f'"I can do it all alone," {h.she} said.', f"{h.She} worked all morning.")
    t.say(f"{h.She} made the {thing} out of {poor}.", f"{h.She} took some {poor} and made a {thing}.".replace("some an", "an"))
    t.say(f"But as soon as {h.she} tried it, the {thing} fell apart.", f"It looked nice. But then, crack! The {thing} broke.",
          f"Then the wind came, and the {thing} fell to pieces.")
    t.say(f"{h.name} sat down and wanted to cry.", f'"All my work is gone," said {h.name}.', f"{h.She} was angry and kicked a stone.")
    t.say(f"{f.titled} had seen it all.", f"Then {t.friend_intro()} came by.")
    t.say(f'"{poor[0].upper() + poor[1:]} will not hold," said {f.name}. "We need {good}."',
          f'"That was a good idea," said {f.name}. "But let us use {good}."')
    t.say(f"They looked for {good} and worked together.", f"So {f.name} held the pieces, and {h.name} put them together.",
          f"{h.name} and {f.name} worked until the evening.")
    t.say(f"The new {thing} was strong.", f"This time the {thing} did not break.", f"When it was done, the {thing} was big and strong.")
    t.say(f"{h.name} and {f.name} {use}.", f"They {use} and laughed.")
    t.moral(f'"It is better to build together," said {h.name}.', f"{h.name} learned to ask for help.",
            f"They called the {thing} {t.pick('Good Luck', 'Sunshine', 'Two Friends')}.")


def small_help(t):
    """A small one is helped, and helps in turn."""
    h = t.h
    small = Someone(t.r, taken=[h.name], animal=True)
    small.kind = t.pick("mouse", "bird", "ant", "bee", "butterfly", "snail")
    stuck = t.pick("stuck in the mud", "caught in a spider web", "under a heavy stone", "in a deep hole",
                   "on a leaf in the middle of the pond")
    t.opening()
    place = t.walk()
    t.say(f'There {h.she} heard a tiny voice. "Help! Help!"', f'"Help me, please!" called a tiny voice.')
    t.say(f"It was a little {small.kind} named {small.name}. {small.She} was {stuck}.",
          f"{h.name} looked down and saw a little {small.kind}. {small.His} name was {small.name}, and {small.she} was {stuck}.")
    t.say(f'"Do not be afraid," said {h.name}. "I will help you."', f"{h.name} was in a hurry, but {h.she} stopped to help.")
    t.say(f"{h.She} took a stick and gently set {small.her} free.", f"Very carefully, {h.she} helped {small.name} get out.")
    t.say(f'"Thank you," said {small.name}. "One day I will help you, too."',
          f'"You are so kind," said {small.name}. "I will never forget it."')
    t.say(f'{h.name} smiled. "You are so small. How can you help me?" {h.she} thought.',
          f"{h.name} laughed, because {small.name} was so small.")
    trouble, rescue = t.pick(
        (f"{h.name} was lost in the fog and could not see the path", f"{small.name} went ahead and showed {h.her} the way home"),
        (f"{h.name}'s foot was caught in a rope", f"{small.name} worked at the knot until it came loose"),
        (f"{h.name} dropped a key into a narrow crack", f"{small.name} went into the crack and brought the key back"),
        (f"{h.name} fell asleep, and a fire was near", f"{small.name} woke {h.her} up just in time"),
        (f"{h.name} was about to step on thin ice", f"{small.name} cried, \"Stop!\" and {h.she} was safe"),
    )
    t.say(f"A few days later, {trouble}.", f"The next week, {trouble}.")
    t.say(f'"Who can help me now?" {h.she} said.', f"{h.She} called for help, but no one came.", f"It was a bad moment.")
    t.say(f"Then the little {small.kind} came. {rescue[0].upper() + rescue[1:]}.", f"But {small.name} was there. {rescue[0].upper() + rescue[1:]}.")
    t.say(f'"You saved me!" said {h.name}.', f'"Thank you, my little friend," said {h.name}.')
    t.say(f"Even a small friend can be a big help.", f"{h.name} never laughed at small ones again.",
          f"From that day on, {h.name} and {small.name} met near {place} every day.",
          f"No one is too small to help.")


def birthday(t):
    """Everyone seems to have forgotten, but no one has."""
    h, f = t.h, t.f
    t.opening()
    t.say(f"It was {h.his} birthday.", f"One morning {h.she} woke up early, because it was {h.his} birthday.")
    t.say(f'"Today everyone will sing for me," {h.she} thought.', f"{h.She} put on {h.his} best {t.pick('hat', 'scarf', 'coat')} and went out.")
    t.say(f"First {h.she} met {f.titled}. But {f.name} only said, \"Good morning,\" and ran away.",
          f"{h.She} saw {f.titled} on the path. \"I have no time,\" said {f.name}. \"I am very busy.\"")
    t.say(f"Then {h.she} went to see {h.his} {h.parent}, but no one was at home.",
          f"Then {h.she} went to {t.pick(*PLACES)}, but no one was there.")
    t.say(f'"Everyone forgot my birthday," said {h.name}, and {h.his} eyes were full of tears.',
          f"{h.name} felt very lonely.", f"{h.name} sat on a stone and cried a little.")
    t.say(f"In the evening {h.she} walked home slowly.", f"When the sun went down, {h.she} went home.")
    t.say(f"{h.She} opened the door. It was dark inside.", f"All the lights were out.")
    t.say('"Surprise!" cried many voices.', '"Happy birthday!" everyone called.')
    t.say(f"All of {h.his} friends were there, and {f.name} held a big cake.",
          f"There were lights and flowers, and {f.name} had made a cake with {t.pick('berries', 'nuts', 'honey', 'apples')}.")
    t.say(f'"Did you think that we forgot you?" asked {f.name}.', f'"That is why I was so busy today," said {f.name}.')
    t.say(f"{h.name} laughed and cried at the same time.", f"{h.name} was so happy that {h.she} could not speak.")
    t.say(f"They ate cake, danced and played games.", f"They sang and danced until the stars came out.")
    t.moral(f"It was the best birthday ever.", f'"You are the best friends in the world," said {h.name}.')


def garden(t):
    """A seed, patience, and something to share."""
    h, f = t.h, t.f
    plant, result = t.pick(("sunflower", "as tall as a house"), ("pumpkin", "as big as a wheel"), ("carrot", "as long as an arm"),
                           ("strawberry plant", "full of red berries"), ("apple tree", "full of white flowers"),
                           ("rose bush", "full of pink roses"), ("bean plant", "so tall that it reached the roof"))
    t.opening()
    day = t.r.choice(DAYS)
    t.say(f"{day}, {h.his} {h.parent} gave {h.her} a small seed.", f"{day}, {h.she} found a small seed on the path.")
    t.say(f'"What will it be?" asked {h.name}.', f'"Plant it and wait," said {t.pick("the old gardener", "a bird", f.name)}.')
    t.say(f"{h.name} made a hole in the ground and put the seed in it.", f"{h.She} planted the seed in the garden.")
    t.say(f"Every morning {h.she} gave it some water.", f"{h.She} watered it each day and sang to it.")
    t.say("But nothing happened.", "One day passed, and then another. Nothing came up.")
    t.say(f'"My seed is asleep," said {h.name}.', f'"Maybe it does not like me," {h.she} said.', f"{h.name} wanted to dig it up and look.")
    t.say(f'"You must be patient," said {f.titled}. "Good things take time."',
          f'{f.titled} came to see it. "Give it time," said {f.name}. "It is working under the ground."')
    t.say("So she waited. The rain came, and the sun came.".replace("she", h.she), f"So {h.name} waited, and watered, and waited some more.")
    t.say("Then, one morning, there was a tiny green leaf!", "One morning a little green tip came out of the ground.")
    t.say(f'"It is growing!" {h.she} cried.', f"{h.name} danced around the garden.")
    t.say(f"It grew and grew. By summer it was a {plant}, {result}.".replace("a apple", "an apple"),
          f"Week after week it grew. It was a {plant}, {result}!".replace("a apple", "an apple"))
    t.say(f"{h.name} invited {f.name} to see it.", f"All the neighbors came to look at it.", f"{h.name} and {f.name} sat next to it in the evening.")
    t.moral(f"Then {h.name} gave {f.name} a seed, so that {f.she} could plant one, too.",
            f"{h.name} learned to be patient.", "Good things take time.")


def honesty(t):
    """Something breaks; the truth is hard to say and good to have said."""
    h = t.h
    thing = t.pick("blue cup", "big vase", "clock", "window", "lamp", "flower pot", "mirror", "teapot")
    owner = h.his + " " + h.parent
    Owner = h.His + " " + h.parent
    they = "She" if h.parent.endswith("mother") else "He"
    t.opening()
    t.say(f"One day, {h.she} played with a ball inside the house.", f"One rainy day, {h.she} ran and jumped in the kitchen.")
    t.say(f"Crash! The {thing} fell and broke.", f"Oh no! {h.She} hit the {thing}, and it broke into pieces.")
    t.say(f"It was the {thing} that {owner} loved.", f"The {thing} belonged to {owner}.")
    t.say(f"{h.name} was afraid. {h.She} hid the pieces under the bed.", f"{h.name} quickly put the pieces in a box and hid it.")
    t.say(f'In the evening {owner} asked, "Where is my {thing}?"', f'"Have you seen my {thing}?" asked {owner}.')
    t.say(f'"I do not know," said {h.name}. But {h.his} face was red.', f'"Maybe the {t.pick("cat", "wind", "dog")} took it," said {h.name}.')
    t.say(f"That night, {h.name} could not sleep.", f"{h.name} did not want to eat or play. {h.His} stomach felt heavy.")
    t.say(f'"I told a lie," {h.she} thought. "I have to tell the truth."', f"{h.She} knew that a lie is like a stone in the shoe.")
    t.say(f'In the morning {h.she} went to {owner}. "I broke the {thing}," {h.she} said. "I am sorry."',
          f'{h.She} got the box and said, "I broke it. I am so sorry that I lied."')
    t.say(f"{Owner} was quiet for a moment. Then {they.lower()} smiled.", f"{Owner} looked at the pieces and gave {h.name} a hug.")
    t.say(f'"A {thing} can be fixed," {they.lower()} said. "I am glad that you told me the truth."',
          f'"Thank you for telling me," {they.lower()} said. "The truth is more important than a {thing}."')
    t.say(f"Together they fixed the {thing} with glue.", f"They put the pieces together, one by one.")
    t.say(f"{h.name} felt as light as a feather.", f"{h.name} never told a lie again.", f"After that, {h.name} only played ball outside.")


def lost_way(t):
    """Lost in the woods, and led home."""
    h = t.h
    elder, They, they, their = t.pick(*ELDERS)
    sign = t.pick("the river", "the bright star", "the smoke from the chimney", "the sound of the bell", "the row of white stones")
    t.opening()
    t.say(f'"Do not go too far," {h.his} {h.parent} always said.', f'{h.His} {h.parent} told {h.her}, "Stay on the path."')
    t.say(f"One day, {h.name} followed a {t.pick('blue', 'yellow', 'white')} butterfly into the woods.",
          f"One day, {h.she} went into the woods to look for {t.pick('berries', 'mushrooms', 'flowers', 'nuts')}.")
    t.say(f"{h.She} went deeper and deeper, and did not look back.", f"{h.She} forgot the time and went far away from the path.")
    t.say("When it got dark, all the trees looked the same.", "The sun went down, and the path was gone.")
    t.say(f'"I am lost," said {h.name} in a small voice.', f"{h.name} called and called, but only the trees heard {h.her}.")
    t.say(f"{h.She} sat down on a log and began to cry.", f"{h.She} wanted to cry, but {h.she} took a deep breath.")
    t.say(f"Then {elder} came along.", f"Just then, {elder} heard {h.her} and came closer.")
    t.say(f'"Why do you cry, little {h.kind}?" asked {elder}.', f'"What are you doing here, so late?" asked {elder}.')
    t.say(f'"I cannot find the way home," said {h.name}.', f'"I left the path, and now I am lost," {h.she} said.')
    t.say(f'"Follow {sign}," said {elder}. "It will lead you home."',
          f'"Look for {sign}," {they} said. "It always shows the way."')
    t.say(f"{They} walked with {h.her} for a while.", f"{h.name} was not afraid anymore, because {elder} went with {h.her}.")
    t.say(f"Soon {h.she} saw a light. It was home!", f"At last {h.she} saw {h.his} own door.")
    t.say(f"{h.His} {h.parent} ran out and held {h.her} tight.", f'"There you are!" cried {h.his} {h.parent}.')
    t.say(f"{h.name} promised to stay on the path.", f"After that, {h.name} never went into the woods alone.",
          f"{h.name} never forgot what {elder} did for {h.her}.", f"They gave {elder} some warm bread and said thank you.")


def race(t):
    """The fast one boasts; something matters more than winning."""
    h, f = t.h, t.f
    t.opening()
    t.say(f"{h.name} was very fast.", f"{h.She} could run faster than anyone.")
    t.say(f'"No one can beat me!" {h.she} said every day.', f"{h.She} told everyone how fast {h.she} was.")
    t.say(f"{h.His} friend {f.titled} was slow, but {f.she} never gave up.", f"{h.His} friend {f.name} was not fast at all.")
    t.say("One day, there was a big race around the hill.", "One day, there was a race from the old bridge to the big tree.")
    t.say(f'"I will win for sure," said {h.name}.', f'"You are too slow to race with me," {h.name} said to {f.name}.')
    t.say(f'"I will do my best," said {f.name}.', f"{f.name} only smiled.")
    t.say("One, two, three, go!", "They all stood in a line. Then the race began.")
    t.say(f"{h.name} ran like the wind.", f"{h.name} was far ahead of everyone.")
    if t.r.random() < 0.5:
        t.say(f"{h.She} looked back and laughed. Then {h.she} fell over a {t.pick('stone', 'root')} and hurt {h.his} leg.",
              f"But {h.she} did not look where {h.she} was going. {h.She} fell into a hole.")
        t.say(f"The others ran past {h.her}.", f'"Help!" cried {h.name}, but no one stopped.')
        t.say(f"Only {f.name} stopped.", f"Then {f.name} came, step by step, and stopped.")
        t.say(f'"Hold on to me," said {f.name}. "We will go together."', f'"I will not leave you here," said {f.name}.')
        t.say("They came to the end of the race last of all, arm in arm.", "Slowly, side by side, they walked to the end of the race.")
        t.say("Everyone clapped and cheered for them.", "All the others stood up and clapped.")
        t.moral(f'"A good friend is better than a prize," said {h.name}.', f"{h.name} never boasted again.")
    else:
        t.say(f'"I have a lot of time," {h.she} thought, and lay down under a tree.', f"{h.She} was so far ahead that {h.she} stopped to eat some berries.")
        t.say(f"Soon {h.she} fell asleep.", f"The sun was warm, and {h.his} eyes closed.")
        t.say(f"{f.name} walked on and on, step by step.", f"But {f.name} did not stop. {f.She} passed the tree without a sound.")
        t.say(f"When {h.name} woke up, it was too late.", f"{h.name} woke up and ran as fast as {h.she} could, but it was too late.")
        t.say(f"{f.name} had won the race!", f"{f.name} was already at the end, and everyone cheered.")
        t.say(f'"You did well, {f.name}," said {h.name}. "I was foolish."', f"{h.name} was ashamed, but {h.she} shook {f.name}'s hand.")
        t.moral(f"{h.name} never boasted again.", "Slow steps can go a long way.")


def newcomer(t):
    """Someone new is shy, and someone asks."""
    h, f = t.h, t.f
    game = t.pick("hide and seek", "ball", "tag", "pirates", "a game with stones", "school")
    t.opening(alone=True)
    t.say(f"{h.name} was new in the {t.pick('village', 'forest', 'town', 'valley')} and had no friends yet.",
          f"One day, {h.she} moved to a new home, far away from all of {h.his} friends.")
    place = t.r.choice(PLACES)
    t.say(f"{h.She} saw the others play {game} near {place}.", f"Every day {h.she} watched the others play {game} near {place}.")
    t.say(f"{h.She} wanted to play, but {h.she} was too shy to ask.", f'"Maybe they do not like me," {h.she} thought.')
    t.say(f"So {h.she} sat alone behind a bush.", f"So {h.she} stood under a tree and said nothing.")
    t.say(f"{f.titled} saw {h.her}.", f"But {t.friend_intro()} had seen {h.her}.")
    t.say(f'"Hello! I am {f.name}. What is your name?" "My name is {h.name}," {h.she} said very softly.',
          f'"Why do you sit here all alone?" asked {f.name}. "I am {h.name}. I am new here," {h.she} said.')
    t.say(f'"Do you want to play {game} with us?" asked {f.name}.', f'"Come and play {game} with us, {h.name}!" said {f.name}.')
    t.say(f"{h.name}'s eyes lit up.", f"{h.name} nodded and smiled for the first time.")
    t.say(f"They played all day, and {h.name} was very good at it.", f"They ran and laughed until it was dark.")
    t.say(f"In the evening {f.name} said, \"Come back tomorrow!\"", f'"See you tomorrow!" said {f.name}.')
    t.moral(f"{h.name} was not lonely anymore.", f"A few weeks later, there was a new {t.pick('duck', 'lamb', 'mole', 'frog')} in the {t.pick('forest', 'village')}. "
            f"{h.name} went to {t.pick('him', 'her')} and said, \"Hello! Do you want to play?\"",
            f"One kind word can make a friend.")


def sick_friend(t):
    """A friend is ill, and gets well with company."""
    h, f = t.h, t.f
    gift = t.pick("a bowl of hot soup", "a bunch of wild flowers", "a jar of honey", "a book with pictures", "a warm blanket", "some fresh bread")
    t.opening()
    t.say(f"Every day {h.she} played with {f.titled}.", f"{h.His} best friend was {f.titled}.")
    t.say(f"One day, {f.name} did not come out to play.", f"One morning, {h.she} waited for {f.name}, but {f.name} did not come.")
    t.say(f"{h.name} went to {f.name}'s house and knocked.", f'"Where is {f.name}?" {h.she} thought, and went to see.')
    t.say(f"{f.name} was in bed. {f.His} nose was red, and {f.she} felt cold.", f'"I am sick," said {f.name} in a weak voice.')
    t.say(f'"Poor {f.name}! I will be right back," said {h.name}.', f'"I know what will help you," said {h.name}, and ran home.')
    t.say(f"Soon {h.she} came back with {gift}.", f"{h.His} {h.parent} helped {h.her}, and soon {h.she} came back with {gift}.")
    t.say(f'"This is for you," {h.she} said.', f"{f.name} smiled when {f.she} saw it.")
    t.say(f"{h.name} sat next to the bed and told {f.her} a funny story.", f"Then {h.name} sang a song and held {f.his} hand.")
    t.say(f"{f.name} laughed and soon fell asleep.", f"{f.name} felt a little better and closed {f.his} eyes.")
    t.say(f"{h.name} came back every day.", f"The next day, {h.name} came again, and the day after that.")
    t.say(f"After {t.pick('three days', 'a week')}, {f.name} was well again.", f"Soon {f.name} was strong and could run and jump again.")
    t.say(f'"You made me well," said {f.name}.', f'"Thank you for taking care of me," said {f.name}.')
    t.moral("A friend is the best medicine.", f"And when {h.name} got a cold, {f.name} came with {gift}.")


def baking(t):
    """Something is missing from the cake, and every neighbor has a little."""
    h, f = t.h, t.f
    g = Someone(t.r, taken=[h.name, f.name], animal=True)
    missing = t.r.sample(["flour", "milk", "sugar", "honey", "butter", "salt"], 2)
    cake = t.pick("an apple pie", "a big cake", "a honey cake", "some cookies", "a berry pie")
    t.opening()
    t.say(f"One day, {h.she} wanted to bake {cake} for {h.his} {h.parent}.", f"One rainy day, {h.name} had a good idea. {h.She} would bake {cake}.")
    t.say(f"But there was no {missing[0]} in the kitchen.", f"{h.She} looked in the kitchen. There was no {missing[0]}!")
    t.say(f"So {h.she} went to {f.titled}.", f'"I will ask {f.name}," {h.she} thought.')
    t.say(f'"Do you have some {missing[0]}?" asked {h.name}.', f'"Can you give me a little {missing[0]}, please?" {h.she} asked.')
    t.say(f'"Yes, here it is," said {f.name}. "But what about the {missing[1]}?"',
          f'"I have {missing[0]}," said {f.name}, "but I have no {missing[1]}."')
    t.say(f'"Oh! I have no {missing[1]} either," said {h.name}.', f"{h.name} had forgotten the {missing[1]}!")
    t.say(f"They went to {g.name} the {g.kind} together.", f'"Let us ask {g.name} the {g.kind}," said {f.name}.')
    t.say(f"{g.name} had a big jar of {missing[1]}.", f'"You can have my {missing[1]}," said {g.name}, "if I can help you bake."')
    t.say(f"The three friends went to the kitchen and began to bake.", f"So {h.name}, {f.name} and {g.name} baked {cake} together.")
    t.say(f"{f.name} had flour on {f.his} nose, and everyone laughed.", f"They mixed and stirred, and it smelled so good.")
    t.say(f"When it was ready, {h.his} {h.parent} came in.", f"At last it was ready, golden and warm.")
    t.say(f'"This is the best thing I ever ate!" said {h.his} {h.parent}.', "They sat around the table, and everyone got a big piece.")
    t.moral(f"When everyone gives a little, there is enough for all.", f"They did not leave a crumb.")


def baby_bird(t):
    """A baby bird has fallen from its nest."""
    h, f = t.h, t.f
    t.opening()
    place = t.walk()
    t.say(f"Under a tree {h.she} found a baby bird.", f"There, in the grass, sat a tiny bird.")
    t.say("It had fallen out of its nest.", "It was too young to fly.", "It was cold and afraid.")
    t.say(f'"Do not cry, little bird," said {h.name}.', f'"Where is your mother?" asked {h.name}.')
    t.say(f"The nest was high up in the tree.", f"{h.name} looked up. The nest was on a high branch.")
    t.say(f"{h.She} tried to climb the tree, but {h.she} could not reach it.", f"It was too high for {h.her}.")
    t.say(f"So {h.she} called {h.his} friend {f.name}.", f"Then {t.friend_intro()} came by.")
    t.say(f'"You can stand on my back," said {f.name}.', f'"I have a long ladder," said {f.name}.', f'"I will hold you," said {f.name}.')
    t.say(f"{h.name} held the bird in {h.his} {t.pick('hat', 'scarf')} and climbed up, very slowly.",
          f"Up and up went {h.name}, with the baby bird in {h.his} {t.pick('hat', 'scarf')}.")
    t.say(f"{h.She} put the bird back in the nest.", "At last the baby bird was back with its brothers and sisters.")
    t.say("The mother bird came and sang for joy.", '"Thank you!" sang the mother bird.')
    t.say(f"Every morning after that, the bird sang at {h.name}'s window.", f"In the summer the young bird could fly. It flew around {h.name} and {f.name} and sang.",
          f"{h.name} and {f.name} went home with a happy heart.", f"From then on, there was always a song near {place}.")


def star_wish(t):
    """A wish upon a star comes true in a way one can make oneself."""
    h, f = t.h, t.f
    t.opening()
    t.say(f"One night, {h.she} could not sleep. {h.She} looked out of the window.", f"One clear night, {h.name} sat on the hill and looked at the sky.")
    t.say("A star fell from the sky.", "High above, a star was falling.")
    wish, way = t.pick(
        ("a friend", f"The next morning, {t.friend_intro()} sat on the doorstep and said, \"Do you want to play?\""),
        ("snow", f"In the morning everything was white, and {f.titled} came with a sled"),
        ("a song", f"The next day, {f.titled} came by and sang the most beautiful song"),
        ("a big adventure", f"In the morning {f.titled} came by in a little boat and said, \"Come with me!\""),
        ("a new hat", f"In the morning {f.titled} came by with a soft {t.pick('red', 'blue', 'green')} hat, made by hand"),
    )
    t.say(f'"I wish for {wish}," said {h.name}.', f'{h.name} closed {h.his} eyes. "I wish I had {wish}," {h.she} said.')
    t.say("Then she went to bed and waited.".replace("she", h.she), f"{h.She} went to bed and dreamed about it.")
    t.lines.append(way if way.endswith('"') else way + ".")
    t.say(f'"My wish came true!" cried {h.name}.', f"{h.name} could not believe it.")
    t.say(f'"How did you know?" {h.she} asked.', f'"Did the star send you?" asked {h.name}.')
    t.say(f'{f.name} laughed. "I saw the same star," {f.she} said. "I wished for a friend, too."',
          f'"A star told me," said {f.name} with a wink.')
    t.say("All day long they were together.", f"That day, {h.name} and {f.name} were never apart.")
    t.say(f"In the evening they sat on the hill and looked at the stars.", "At night they thanked the star together.")
    t.moral("Some wishes come true when two wish together.")


PLOTS = [lost_thing, sharing, storm, learning, fear, building, small_help, birthday, garden, honesty, lost_way, race,
         newcomer, sick_friend, baking, baby_bird, star_wish]


def start_later(t, skip):
    """The story without its first lines, so that it may begin anywhere; the hero is then named at once."""
    h = t.h
    t.lines = t.lines[skip:]
    first = t.lines[0]
    for pronoun, name in ((h.She, h.name), (h.His, h.name + "'s")):
        if first.startswith(pronoun + " "):
            first = name + first[len(pronoun):]
    if not h.child and t.r.random() < 0.5:
        first = first.replace(h.name, h.titled, 1)
    t.lines[0] = first


def tell(r):
    """One story, as a string."""
    t = Teller(r)
    r.choice(PLOTS)(t)
    if r.random() < 0.25:
        start_later(t, r.randint(1, 3))
    paragraphs, at = [], 0
    # Paragraphs of a few sentences, as in a book.
    while at < len(t.lines):
        size = r.randint(4, 7)
        paragraphs.append(" ".join(t.lines[at : at + size]))
        at += size
    return "\n".join(paragraphs)


def stories(count, seed=2024):
    """`count` stories, the same for the same seed."""
    r = random.Random(seed)
    return [tell(r) for _ in range(count)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=2024)
    options = parser.parse_args()
    print("\n\n".join(stories(options.count, options.seed)))
