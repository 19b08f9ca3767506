// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/remind_cases.h"

namespace runnel::remind_bench {
namespace {

constexpr Template kTunedNames[] = {
    {"My sister's name is {}.", "What is my sister's name?"},
    {"My dog is called {}.", "What is my dog called?"},
    {"My teacher's name is {}.", "Who is my teacher?"},
    {"I work for a woman called {}, who started the firm.", "For whom do I work?"},
    {"Everybody in our street knows my cat {}.", "How is my cat called?"},
    {"{} lives next door to us and plays the piano.", "Which neighbour of ours plays the piano?"},
};
constexpr Template kTunedNumbers[] = {
    {"My room number is {}.", "What is my room number?"},
    {"My locker has the number {}.", "What number does my locker have?"},
    {"My bus is number {}.", "What number is my bus?"},
    {"There are {} books on the shelf in my kitchen.", "How many books are on my shelf?"},
    {"I paid {} dollars for the old bicycle.", "How much did I pay for the bicycle?"},
    {"It took us {} days to build the boat.", "How many days did it take us to build the boat?"},
};
constexpr Template kTunedThings[] = {
    {"My grandmother gave me a {}.", "What did my grandmother give me?"},
    {"I bought a {} at the market.", "What did I buy at the market?"},
    {"I found a {} in the attic.", "What did I find in the attic?"},
    {"The thief left everything but the {}.", "What did the thief take?"},
    {"Last summer we mended the {} together.", "What did we mend last summer?"},
    {"There is a {} under my bed since yesterday.", "What is under my bed?"},
};

constexpr Template kHeldNames[] = {
    {"The vet who looks after my parrot is called {}.", "Who is the vet of my parrot?"},
    {"My new neighbour introduced herself as {}.", "What was the name of my new neighbour?"},
    {"At the wedding I danced with {} all evening.", "With whom did I dance at the wedding?"},
    {"Our daughter's violin teacher is {}.", "Who teaches our daughter the violin?"},
    {"The plumber I hired is {}, and he comes on Tuesday.", "Which plumber did I hire?"},
    {"{} is the captain of my football team.", "Who is the captain of my team?"},
    {"I named my boat {} after a great-aunt.", "What did I name my boat?"},
    {"My flatmate {} always forgets the keys.", "What is my flatmate's name?"},
    {"Grandpa's best friend in the village was {}.", "Who was Grandpa's best friend?"},
    {"The nurse on our ward is {}.", "What is the nurse on our ward called?"},
};
constexpr Template kHeldNumbers[] = {
    {"My parking space is number {}.", "Which parking space is mine?"},
    {"The combination of my suitcase is {}.", "What is the combination of my suitcase?"},
    {"We invited {} guests to the party.", "How many guests did we invite?"},
    {"My flight leaves from gate {}.", "Which gate does my flight leave from?"},
    {"The rent of our flat is {} euros.", "How high is our rent?"},
    {"I have collected {} stamps so far.", "How many stamps have I collected?"},
    {"My running club meets at kilometre {} of the river path.",
     "At which kilometre does my running club meet?"},
    {"The order number of my sofa is {}.", "What is the order number of my sofa?"},
    {"My aunt's recipe needs {} grams of flour.",
     "How many grams of flour does my aunt's recipe need?"},
    {"I owe my brother {} dollars.", "How much do I owe my brother?"},
};
constexpr Template kHeldThings[] = {
    {"I hid the present inside a {}.", "Where did I hide the present?"},
    {"My colleague keeps a {} on his desk.", "What does my colleague keep on his desk?"},
    {"The museum lent us a {} for the show.", "What did the museum lend us?"},
    {"My son broke a {} yesterday.", "What did my son break?"},
    {"For the garden I ordered a {}.", "What did I order for the garden?"},
    {"In the cellar we keep an old {}.", "Which old thing do we keep in the cellar?"},
    {"My guest left a {} in my car.", "What was left in my car?"},
    {"My uncle repaired a {} for the neighbours.", "What did my uncle repair?"},
    {"I won a {} in the raffle.", "What did I win in the raffle?"},
    {"The first thing I ever sold was a {}.", "What was the first thing that I sold?"},
};

constexpr Kind kKinds[] = {{"names", kTunedNames, kHeldNames},
                           {"numbers", kTunedNumbers, kHeldNumbers},
                           {"objects", kTunedThings, kHeldThings}};

constexpr std::string_view kTunedNothing[] = {
    "What is the capital of France?",
    "How do I boil an egg?",
    "Write a poem about the sea.",
    "Can you help me with my job interview?",
    "Explain what a queue is, with a code example.",
    "What is the difference between a virus and a bacterium?",
    "How many planets are there?",
    "Who wrote Hamlet?",
    "Give me three ideas for dinner.",
    "What should I cook for my friends tonight?",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "What is the fastest way to learn a language?",
    "Tell me a joke.",
    "How can I sleep better?",
    "What is 17 times 23?",
    "Write a short letter to my landlord about a broken heater.",
    "Which films are good for children?",
    "I feel tired today. What can I do?",
    "What does HTTP stand for?",
    "Summarize the plot of Romeo and Juliet.",
    "Is it healthy to drink coffee every day?",
    "Write a Python function that reverses a string.",
    "What is a good name for a bakery?",
    "When did the Second World War end?",
    "How far is the moon?",
    "Should I learn C or Python first?",
    "Name five rivers in Europe.",
    "What are the symptoms of a cold?",
    "Who was the first person on the moon?",
};

constexpr std::string_view kHeldNothing[] = {
    "What is the largest ocean on Earth?",
    "How does a refrigerator work?",
    "Write a haiku about autumn.",
    "Who painted the Mona Lisa?",
    "What is the boiling point of water in Fahrenheit?",
    "Give me a recipe for pancakes.",
    "How do I tie a tie?",
    "Explain recursion to a child.",
    "What are the primary colours?",
    "Which country has the most people?",
    "Can you suggest a book about history?",
    "How do vaccines work?",
    "Write a birthday message for my mother.",
    "What is the square root of 144?",
    "Why do cats purr?",
    "What is photosynthesis?",
    "How long does it take to fly from London to New York?",
    "Write a limerick about a frog.",
    "What is the currency of Japan?",
    "How can I improve my handwriting?",
    "Who discovered penicillin?",
    "List the days of the week in German.",
    "What is a black hole?",
    "Should I buy a laptop or a tablet?",
    "How do I remove a coffee stain from my shirt?",
    "What does a judge do?",
    "Write a function in C that sums an array.",
    "What is the tallest mountain in Africa?",
    "How many bones does a human body have?",
    "Give me tips for a first date.",
    "What is inflation?",
    "When was the printing press invented?",
    "How do I write a good cover letter?",
    "Translate 'thank you very much' into Italian.",
    "What is the plural of mouse?",
    "Why do leaves change colour?",
    "Who was Cleopatra?",
    "What are good exercises for my back?",
    "How do you play chess?",
    "Write a slogan for a coffee shop.",
    "What is the speed of light?",
    "Is a tomato a fruit?",
    "How do I save money each month?",
    "Explain the water cycle.",
    "What is the difference between weather and climate?",
    "Which language is spoken in Brazil?",
    "Write an apology to a customer.",
    "How many continents are there?",
    "What is an algorithm?",
    "Can I freeze cooked rice?",
    "Who invented the telephone?",
    "What can I plant in a small garden?",
    "How do magnets work?",
    "Give me a riddle.",
    "What is the chemical symbol of gold?",
    "How do I calm a crying baby?",
    "What should we do on a rainy weekend?",
    "Write a toast for a wedding.",
    "What is a leap year?",
    "How can I make new friends?",
    "Which vitamins are in oranges?",
    "What does 'carpe diem' mean?",
    "How do I change a flat tyre?",
    "Describe a sunset in two sentences.",
    "What is the largest animal?",
    "Why is exercise good for you?",
    "How do I start a blog?",
    "Who composed the Moonlight Sonata?",
    "What is the capital of Australia?",
    "Plan a three-day trip to Rome for us.",
    "How does the internet work?",
    "What is a prime number?",
    "Fix the grammar: he go to school yesterday.",
    "What are the ingredients of guacamole?",
    "How can I learn to juggle?",
    "What is the meaning of the word serendipity?",
    "Write a dialogue between a cat and a dog.",
    "How old is the universe?",
    "What is the opposite of brave?",
    "How do I ask my boss for a raise?",
    "Which planet is closest to the sun?",
    "What is DNA?",
    "Compare trains and planes.",
    "How do I clean a cast-iron pan?",
    "What is the best time to visit Iceland?",
    "Who wrote Don Quixote?",
    "What is a verb?",
    "How do I get rid of hiccups?",
    "Convert 5 miles to kilometres.",
    "What makes a good leader?",
    "Write a bedtime story about a dragon.",
    "Why do we dream?",
    "What is the Pythagorean theorem?",
    "How do I train a puppy?",
    "What are renewable energies?",
    "Give me a synonym for happy.",
    "How do airplanes stay in the air?",
    "What is the national animal of Scotland?",
    "I am bored. What shall I do?",
    "How do I sort a list in Python?",
};
static_assert(std::size(kHeldNothing) == 100);

constexpr std::string_view kPeople[] = {
    "Marlow",   "Hester", "Quill",  "Ansel",  "Brida",   "Corwin",  "Delphine", "Edmund",
    "Farah",    "Gideon", "Hollis", "Imogen", "Jasper",  "Katya",   "Linus",    "Maeve",
    "Nolan",    "Odette", "Piers",  "Rosa",   "Soren",   "Tamsin",  "Ursula",   "Viggo",
    "Winifred", "Xenia",  "Yorick", "Zelda",  "Bartek",  "Cosima",  "Dermot",   "Elspeth",
    "Fionn",    "Greta",  "Hamish", "Ilse",   "Jolanda", "Kasimir", "Leonie",   "Mungo"};
constexpr std::string_view kLooks[] = {"copper", "green",  "wooden", "silver", "blue",    "velvet",
                                       "broken", "red",    "glass",  "yellow", "striped", "brass",
                                       "tiny",   "golden", "white",  "purple"};
constexpr std::string_view kThings[] = {
    "kettle", "umbrella", "horse", "whistle", "lantern", "chair",  "clock",  "bicycle",
    "bottle", "boot",     "kite",  "bell",    "pot",     "ring",   "hat",    "scarf",
    "drum",   "bowl",     "flute", "basket",  "globe",   "puppet", "mirror", "anchor"};

}  // namespace

std::span<const Kind> kinds() { return kKinds; }

std::span<const std::string_view> nothing_past(bool tuned) {
  if (tuned) return kTunedNothing;
  return kHeldNothing;
}

std::span<const std::string_view> people() { return kPeople; }
std::span<const std::string_view> looks() { return kLooks; }
std::span<const std::string_view> things() { return kThings; }

}  // namespace runnel::remind_bench
